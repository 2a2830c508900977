#include "tokenizer/pre_tokenizer.hpp"

#include <memory>
#include <random>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <gtest/gtest.h>

#include "core/base/utf8.hpp"
#include "tests/models/tokenizer/fixtures.hpp"

namespace pipeline::tokenizer {
namespace {

std::vector<std::string> pieces_of(const std::string& text, PreTokenizer kind = PreTokenizer::kGpt2) {
  std::vector<std::string> pieces;
  for (PieceScanner scanner(text, kind); scanner.next();) pieces.emplace_back(scanner.piece());
  return pieces;
}

// A regular expression as PCRE2 understands it.
class Regex {
 public:
  explicit Regex(const char* pattern) {
    int error;
    size_t offset;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (!code_) throw std::runtime_error("the expression does not compile");
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  std::vector<std::string> matches(const std::string& text) const {
    std::vector<std::string> result;
    for (size_t at = 0; at < text.size();) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
      if (found < 0) break;
      const size_t* range = pcre2_get_ovector_pointer(match_.get());
      result.push_back(text.substr(range[0], range[1] - range[0]));
      at = range[1];
    }
    return result;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

std::string utf8(uint32_t code_point) {
  std::string text;
  append_utf8(code_point, text);
  return text;
}

// Where PCRE2 knows an older Unicode than ours, characters that are new since are unassigned to it.
bool pcre2_agrees(uint32_t code_point, const std::array<Regex, 3>& classes) {
  CharacterClass theirs = CharacterClass::kOther;
  const std::string text = utf8(code_point);
  if (!classes[0].matches(text).empty()) theirs = CharacterClass::kLetter;
  if (!classes[1].matches(text).empty()) theirs = CharacterClass::kNumber;
  if (!classes[2].matches(text).empty()) theirs = CharacterClass::kSpace;
  return theirs == character_class(code_point);
}

TEST(PreTokenizer, CutsAsHuggingFaceDoes) {
  ASSERT_FALSE(tests::encode_cases().empty());
  for (const auto& expected : tests::encode_cases())
    EXPECT_EQ(pieces_of(expected.text), expected.pieces) << expected.text;
}

// U+180E was white space until Unicode 6.3; PCRE2 keeps it, as Perl's \h does.
constexpr uint32_t kMongolianVowelSeparator = 0x180e;

TEST(PreTokenizer, ClassesDifferFromPcre2OnlyInCharactersNewToIt) {
  const std::array<Regex, 3> classes = {Regex(R"(\p{L})"), Regex(R"(\p{N})"), Regex(R"(\s)")};
  const Regex unassigned(R"(\p{Cn})");
  int known = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    if (pcre2_agrees(c, classes)) {
      known += character_class(c) != CharacterClass::kOther;
    } else if (c != kMongolianVowelSeparator) {
      ASSERT_FALSE(unassigned.matches(utf8(c)).empty()) << std::hex << c;
    }
  }
  EXPECT_GT(known, 130'000);
  EXPECT_EQ(character_class(kInvalidByte), CharacterClass::kOther);
}

class Expression : public ::testing::TestWithParam<std::pair<PreTokenizer, const char*>> {};

TEST_P(Expression, IsWhatTheScannerDoes) {
  const PreTokenizer kind = GetParam().first;
  const Regex regex(GetParam().second);
  const std::array<Regex, 3> classes = {Regex(R"(\p{L})"), Regex(R"(\p{N})"), Regex(R"(\s)")};
  // Every way in which characters of each kind, of one byte and of several, can stand side by side.
  const std::vector<std::string> parts = {
      "a",      "Z",      "s",      "t",      "r",      "e",          "v",      "m",      "l",
      "d",      "'",      "'",      "7",      ".",      "\n",         " ",      "\u00a0", "\u3000",
      "\u00e9", "\u4e2d", "\u00b2", "\u0663", "\u2026", "\U0001f600", "\u0301", "\t",     " ",
      " ",      "\r",     "\r\n",   "S",      "L",      "E",          "\u017f", "12",     "1234"};
  std::mt19937 random(1);
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += parts[random() % parts.size()];
    ASSERT_EQ(pieces_of(text, kind), regex.matches(text)) << text;
  }
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (size_t n = random() % 8; n > 0;) {
      const uint32_t c = random() % (random() % 2 == 0 ? 0x3000 : 0x20000);
      if ((c >= 0xd800 && c < 0xe000) || !pcre2_agrees(c, classes)) continue;
      text += random() % 4 == 0 ? " " : utf8(c);
      --n;
    }
    ASSERT_EQ(pieces_of(text, kind), regex.matches(text)) << text;
  }
}

// SmolLM's as one expression: a number ends the text before it, so white space may stay whole there.
INSTANTIATE_TEST_SUITE_P(
    PreTokenizer, Expression,
    ::testing::Values(
        std::pair(PreTokenizer::kGpt2,
                  R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
        std::pair(PreTokenizer::kSmolLm,
                  R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+)"),
        std::pair(PreTokenizer::kLlama3,
                  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
        std::pair(PreTokenizer::kQwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                        R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")));

TEST(PreTokenizer, BytesThatAreNotUtf8AreOthers) {
  EXPECT_EQ(pieces_of("ab\xff\xfe!c"), (std::vector<std::string>{"ab", "\xff\xfe!", "c"}));
  EXPECT_EQ(pieces_of("\xe4\xb8"), (std::vector<std::string>{"\xe4\xb8"}));                // cut
  EXPECT_EQ(pieces_of("1 \xc0\xaf"), (std::vector<std::string>{"1", " \xc0\xaf"}));        // overlong
  EXPECT_EQ(pieces_of("\xed\xa0\x80x"), (std::vector<std::string>{"\xed\xa0\x80", "x"}));  // a surrogate
  EXPECT_EQ(pieces_of("\xf4\x90\x80\x80 y"),
            (std::vector<std::string>{"\xf4\x90\x80\x80", " y"}));  // over U+10FFFF
}

TEST(PreTokenizer, PiecesAreTheText) {
  std::mt19937 random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += static_cast<char>(random() % 3 == 0 ? ' ' : random());
    for (const auto kind :
         {PreTokenizer::kGpt2, PreTokenizer::kSmolLm, PreTokenizer::kLlama3, PreTokenizer::kQwen2}) {
      std::string joined;
      for (const std::string& piece : pieces_of(text, kind)) {
        ASSERT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

}  // namespace
}  // namespace pipeline::tokenizer
