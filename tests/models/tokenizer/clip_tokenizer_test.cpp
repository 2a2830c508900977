// CLIP's tokenizer: lower case, no white space, and tokens of their own for what ends a word.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

using testing::HasSubstr;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Bytes are tokens 0 to 255 in the alphabet's order, bytes that end a word 256 to 511, then come merges.
const std::vector<std::pair<std::string, std::string>> kMerges{{"a", "t</w>"}, {"c", "at</w>"}, {"c", "a"}};

nlohmann::json vocab() {
  nlohmann::json vocab;
  int id = 0;
  for (const char* end : {"", "</w>"})
    for (const uint8_t byte : alphabet_order())
      vocab[to_alphabet(std::string(1, static_cast<char>(byte))) + end] = id++;
  for (const auto& [left, right] : kMerges) vocab[left + right] = id++;
  vocab["<|startoftext|>"] = id++;
  vocab["<|endoftext|>"] = id;
  return vocab;
}

int32_t token(char byte, bool ends_word = false) {
  return vocab()[std::string(1, byte) + (ends_word ? "</w>" : "")].get<int32_t>();
}

class ClipTokenizer : public testing::Test {
 protected:
  TokenizerPtr load(const nlohmann::json& words) {
    write_text(folder_.path() / "vocab.json", words.dump());
    std::string merges = "#version: 0.2\n";
    for (const auto& [left, right] : kMerges) merges += left + " " + right + "\n";
    write_text(folder_.path() / "merges.txt", merges);
    return load_tokenizer(folder_.path().string());
  }
  tests::TemporaryFolder folder_;
};

TEST_F(ClipTokenizer, EndsEachWordWithATokenOfItsOwn) {
  const TokenizerPtr tokenizer = load(vocab());
  const auto encoded = [&](const char* text) { return tokenizer->encode(text); };
  const int32_t at_end = 512, cat = 513, ca = 514;
  EXPECT_THAT(encoded("cat"), testing::ElementsAre(cat));
  EXPECT_THAT(encoded(" CAT\n\tCat "), testing::ElementsAre(cat, cat));
  EXPECT_THAT(encoded("cats"), testing::ElementsAre(ca, token('t'), token('s', true)));
  EXPECT_THAT(encoded("bat"), testing::ElementsAre(token('b'), at_end));
  EXPECT_THAT(encoded("cat's"), testing::ElementsAre(cat, token('\''), token('s', true)));
  EXPECT_THAT(encoded("12!?"),
              testing::ElementsAre(token('1', true), token('2', true), token('!'), token('?', true)));
  EXPECT_THAT(encoded("  "), testing::IsEmpty());
  EXPECT_THAT(encoded("I\xcc\x87"), encoded("\xc4\xb0")) << "composed to one letter, which becomes two again";
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{cat, ca, token('t'), token('s', true)}), "cat cats");
}

TEST_F(ClipTokenizer, HasItsOwnBeginAndEnd) {
  const TokenizerPtr tokenizer = load(vocab());
  EXPECT_EQ(tokenizer->bos(), 515);
  EXPECT_EQ(tokenizer->eot(), 516);
  EXPECT_TRUE(tokenizer->is_special(515));
}

TEST_F(ClipTokenizer, IsTheSameAfterSavingAndInACheckpoint) {
  const TokenizerPtr tokenizer = load(vocab());
  const tests::TemporaryFolder saved;
  tokenizer->save(saved.path().string());
  const TokenizerPtr again = load_tokenizer((saved.path() / "tokenizer.json").string()),
                     kept = tokenizer_of_state(tokenizer->state(), "state");
  for (const TokenizerPtr& other : {again, kept}) {
    EXPECT_EQ(other->encode("A cat, isn't it? CATS"), tokenizer->encode("A cat, isn't it? CATS"));
    EXPECT_EQ(other->fingerprint(), tokenizer->fingerprint());
    EXPECT_EQ(other->bos(), tokenizer->bos());
  }
}

TEST_F(ClipTokenizer, IsReadStrictly) {
  const auto refusal = [&](const auto& make) -> std::string {
    return tests::message_of<TokenizerError>([&] { make(); }, "");
  };
  nlohmann::json words = vocab();
  words["x"] = words["z</w>"];
  words.erase("z</w>");
  EXPECT_THAT(refusal([&] { load(words); }), HasSubstr("x"));

  load(vocab())->save(folder_.path().string());
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    auto file = nlohmann::json::parse(tests::read_all((folder_.path() / "tokenizer.json").string()));
    file[nlohmann::json::json_pointer(pointer)] = value;
    write_text(folder_.path() / "other.json", file.dump());
    return refusal([&] { load_tokenizer((folder_.path() / "other.json").string()); });
  };
  EXPECT_EQ(changed("/truncation", nullptr), "");
  EXPECT_THAT(changed("/normalizer", nullptr), HasSubstr("normalizer"));
  EXPECT_THAT(changed("/pre_tokenizer/pretokenizers/0/behavior", "Isolated"), HasSubstr("behavior"));
  EXPECT_THAT(changed("/post_processor/type", "ByteLevel"), HasSubstr("post_processor"));
  EXPECT_THAT(changed("/post_processor/sep/0", "<|nothing|>"), HasSubstr("<|nothing|>"));
  EXPECT_THAT(changed("/model/end_of_word_suffix", "##"), HasSubstr("end_of_word_suffix"));
}

}  // namespace
}  // namespace pipeline::tokenizer
