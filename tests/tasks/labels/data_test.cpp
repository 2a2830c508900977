// Labels as texts, and the tokens that a model reads of one text or two.
#include "plugins/tasks/labels/data.hpp"

#include <numeric>

#include <gmock/gmock.h>

namespace pipeline::tasks::labels {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Reader reader(Kind kind, std::vector<std::string> classes = {}) {
  return {.kind = kind, .column = "label", .missing = "?", .classes = std::move(classes)};
}

TEST(LabelText, StandsForNoneByItsKind) {
  for (const char* word : {"", "nan", "None", "?"})
    for (const Kind kind : {Kind::kClass, Kind::kNumber}) EXPECT_TRUE(reader(kind).is_none(word)) << word;
  EXPECT_FALSE(reader(Kind::kClass, {"None", "Some"}).is_none("None")) << "a class of the user's";
  EXPECT_TRUE(reader(Kind::kClass).is_none("-100"));
  EXPECT_FALSE(reader(Kind::kNumber).is_none("-100"));
  EXPECT_TRUE(reader(Kind::kSeveral).is_none(""));
  for (const char* list : {"\x1f", "[]"})
    EXPECT_FALSE(reader(Kind::kSeveral).is_none(list)) << "none of the classes";
  EXPECT_THAT(parts_of("\x1f", false), IsEmpty());
  EXPECT_THAT(parts_of("[]", false), IsEmpty());
  EXPECT_TRUE(reader(Kind::kSeveral).is_none("nan"));
}

TEST(LabelText, OfAClassIsItsNameOrAWholeNumber) {
  EXPECT_EQ(reader(Kind::kClass).written("2.0"), "2") << "as programs write them beside missing ones";
  EXPECT_EQ(reader(Kind::kClass).written("2.5"), "2.5");
  EXPECT_EQ(reader(Kind::kClass, {"2.0", "3.0"}).written("2.0"), "2.0");
  EXPECT_EQ(reader(Kind::kNumber).written("2.0"), "2.0");
}

TEST(LabelText, OfSeveralIsAListOfNames) {
  EXPECT_THAT(parts_of(R"(['bad', "it's", 3])", false), ElementsAre("bad", "it's", "3"))
      << "as Python prints it";
  EXPECT_THAT(parts_of("sound, game,mail", false), ElementsAre("sound", "game", "mail"));
  EXPECT_THAT(parts_of("\x1fsound\x1egames, all", false), ElementsAre("sound", "games, all")) << "a list";
  EXPECT_THAT(parts_of(" , ", false), IsEmpty());
  EXPECT_EQ(reader(Kind::kSeveral).problem_of("0,3"), "");
  EXPECT_THAT(reader(Kind::kSeveral).problem_of("0,1,0,1"), HasSubstr("names \"0\" twice"));
  EXPECT_THAT(reader(Kind::kNumber).problem_of("many"), HasSubstr("is no number"));
}

TEST(Words, AreAListOrWhatBlanksDivide) {
  EXPECT_THAT(parts_of("\x1fNew York\x1e,\x1eso", true), ElementsAre("New York", ",", "so"));
  EXPECT_THAT(parts_of(" New  York , so\t", true), ElementsAre("New", "York", ",", "so"));
  EXPECT_TRUE(reader(Kind::kTags).is_none("\x1f"));
  EXPECT_TRUE(reader(Kind::kTags).is_none("-100"));
  EXPECT_FALSE(reader(Kind::kTags)
                   .is_none("\x1fO\x1e"
                            "B-PER"));
}

// A word is told at its last token, by an encoder at its first, if it is whole.
TEST(Words, HaveTheRowsOfTheirLastTokens) {
  const std::string bytes = stores::pack_tokens({{1, 2, 3, 4, 5}, {0}, {}, {2, 1, 2}}, "", 1000);
  const stores::TokenSample sample = stores::unpack_tokens(bytes).value();
  EXPECT_THAT(word_rows(sample, {}, 9), ElementsAre(1, 2, 4));
  EXPECT_THAT(word_rows(sample, {.begin = 0}, 9), ElementsAre(2, 3, 5));
  EXPECT_THAT(word_rows(sample, {.begin = 0}, 5), ElementsAre(2, 3)) << "the last word is cut";
  EXPECT_THAT(word_rows(sample, {.begin = 0, .end = 9}, 7), ElementsAre(1, 3, 4));
  EXPECT_THAT(word_rows(sample, {.begin = 0, .end = 9}, 6), ElementsAre(1, 3));
}

// The tokens of two texts are 1, 2, ... and 101, 102, ...
std::string packed(int32_t first, int32_t second) {
  std::vector<int32_t> one(static_cast<size_t>(first)), two(static_cast<size_t>(second));
  std::iota(one.begin(), one.end(), 1);
  std::iota(two.begin(), two.end(), 101);
  return stores::pack_tokens({one, {0}, two}, "", 1000);
}

TEST(TokensOfTexts, AreCutAtTheEndOfTheLongerOneFirst) {
  const auto read = [](const std::string& bytes, const Frame& frame, int64_t most) {
    return framed(stores::unpack_tokens(bytes).value(), frame, most).tokens;
  };
  EXPECT_THAT(read(packed(3, 0), {.begin = 0}, 9), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(packed(3, 0), {}, 2), ElementsAre(1, 2));
  EXPECT_THAT(read(packed(2, 2), {.begin = 0}, 9), ElementsAre(0, 1, 2, 0, 101, 102)) << "each begins";
  EXPECT_THAT(read(packed(9, 2), {}, 6), ElementsAre(1, 2, 3, 4, 101, 102));
  EXPECT_THAT(read(packed(2, 9), {}, 6), ElementsAre(1, 2, 101, 102, 103, 104));
  EXPECT_THAT(read(packed(9, 9), {.begin = 0}, 8), ElementsAre(0, 1, 2, 3, 0, 101, 102, 103));
  const Frame berts{.begin = 0, .end = 9}, robertas{.begin = 0, .end = 9, .parts_twice = true};
  EXPECT_THAT(read(packed(2, 0), berts, 9), ElementsAre(0, 1, 2, 9));
  EXPECT_THAT(read(packed(2, 1), berts, 9), ElementsAre(0, 1, 2, 9, 101, 9));
  EXPECT_EQ(framed(stores::unpack_tokens(packed(2, 1)).value(), berts, 9).second, 4);
  EXPECT_THAT(read(packed(2, 1), robertas, 9), ElementsAre(0, 1, 2, 9, 9, 101, 9));
  EXPECT_THAT(read(packed(9, 9), robertas, 8), ElementsAre(0, 1, 2, 9, 9, 101, 102, 9));
  for (int32_t first = 1; first < 12; ++first)
    for (int32_t second = 0; second < 12; ++second) {
      const auto sample = packed(first, second);
      const size_t size = read(sample, {}, 8).size();
      EXPECT_EQ(size, static_cast<size_t>(std::min(first + second, 8)));
      EXPECT_EQ(is_cut(stores::unpack_tokens(sample).value(), {}, 8), first + second > 8);
    }
}

}  // namespace
}  // namespace pipeline::tasks::labels
