// Where a text is cut at the tokens that were added to a vocabulary.
#include "tokenizer/added_tokens.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/processor_time.hpp"

namespace pipeline::tokenizer {
namespace {

constexpr Matching kSpecial{}, kWord{.is_special = false, .is_normalized = true},
    kLeft{.is_special = false, .is_normalized = true, .takes_left = true},
    kRight{.is_special = true, .takes_right = true};

std::string cut(const AddedTokens& tokens, std::string_view text) {
  std::string parts;
  tokens.cut(
      text, SpecialTokens::kRecognize, [&](std::string_view part) { parts += "[" + std::string(part) + "]"; },
      [&](int32_t id) { parts += std::to_string(id); });
  return parts;
}

// Tokens that are looked for in what others leave lie within one part.
TEST(AddedTokens, AreFoundInThePartsThatOthersLeave) {
  const AddedTokens tokens({{"<s>", 0, kSpecial},
                            {"ab", 1, kWord},
                            {"abc", 2, kWord},
                            {"b<", 3, kWord},
                            {" x", 4, kLeft},
                            {"<e>", 5, kRight}});
  EXPECT_EQ(cut(tokens, ""), "");
  EXPECT_EQ(cut(tokens, "plain"), "[plain]");
  EXPECT_EQ(cut(tokens, "abcab<s>ab"), "2101") << "the longest, and not beyond a part's end";
  EXPECT_EQ(cut(tokens, "b<s>b<b<s>"), "[b]03[b]0");
  EXPECT_EQ(cut(tokens, "a   x<e>  xabc<e> "), "[a]45[x]25");
  EXPECT_EQ(cut(tokens, "<s><s>ababc"), "0012");
  std::string text, expected;
  for (int i = 0; i < 1000; ++i) text += "<s>abcx", expected += "02[x]";
  EXPECT_EQ(cut(tokens, text), expected);
}

TEST(AddedTokens, AreFoundInOnePassHoweverManyThereAre) {
  constexpr int kTokens = 200000;
  std::vector<std::string> texts;
  std::string text, expected;
  for (int i = 0; i < kTokens; ++i) {
    texts.push_back("<t" + std::to_string(i) + ">");
    text += "x" + texts.back();
    expected += "[x]" + std::to_string(i);
  }
  std::vector<AddedTokens::Token> list;
  for (int i = 0; i < kTokens; ++i) list.push_back({texts[static_cast<size_t>(i)], i, kSpecial});
  EXPECT_LT(tests::processor_seconds([&] {
              const AddedTokens tokens(std::move(list));
              EXPECT_TRUE(cut(tokens, text) == expected);
              EXPECT_EQ(tokens.first_special("<t<t1999990<t199999>").at, 11u);
            }),
            10);
}

}  // namespace
}  // namespace pipeline::tokenizer
