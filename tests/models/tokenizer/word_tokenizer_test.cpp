// Files of WordPiece and unigrams, and what is wrong with them; tests/parity/tokenizer_parity.py compares ids
// with Hugging Face's.
#include "tokenizer/word_tokenizer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/models/tokenizer/fixtures.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;

json form() {
  return {{"added_tokens",
           {{{"id", 0}, {"content", "[PAD]"}, {"special", true}},
            {{"id", 2}, {"content", "[CLS]"}, {"special", true}},
            {{"id", 3}, {"content", "[SEP]"}, {"special", true}}}},
          {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", nullptr}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"vocab",
             {{"[PAD]", 0},
              {"[UNK]", 1},
              {"[CLS]", 2},
              {"[SEP]", 3},
              {"play", 4},
              {"##ing", 5},
              {"cafe", 6},
              {"!", 7}}}}}};
}

std::string error_of(const std::function<void(json&)>& change) {
  const FilesFolder folder;
  json changed = form();
  change(changed);
  folder.write("tokenizer.json", changed.dump());
  const std::string error = message_of<TokenizerError>([&] { load_tokenizer(folder.path()); });
  return error.substr(error.find("tokenizer.json"));
}

TEST(WordPiece, CutsWordsFromTheLeft) {
  const FilesFolder folder, saved;
  folder.write("tokenizer.json", form().dump());
  const TokenizerPtr tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->encode("Playing CAFÉ! [SEP]"), (std::vector<int32_t>{4, 5, 6, 7, 1, 1, 1}));
  EXPECT_EQ(tokenizer->encode("play[SEP]", SpecialTokens::kRecognize), (std::vector<int32_t>{4, 3}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{4, 5, 6}), "playing cafe");
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->bos(), 2);
  EXPECT_EQ(tokenizer->eot(), 3);
  EXPECT_TRUE(tokenizer->encode("").empty());
  const TokenizerPtr again = tokenizer_of_state(tokenizer->state(), "state");
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
  tokenizer->save(saved.path());
  EXPECT_EQ(load_tokenizer(saved.path())->fingerprint(), tokenizer->fingerprint());
}

TEST(WordPiece, ReadsLinesOfTokens) {
  const FilesFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nPlay\n##ing\n");
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("Playing play"), (std::vector<int32_t>{4, 5, 1}));
  folder.write("vocab.txt", "[PAD]\n\n[UNK]\n");
  EXPECT_NE(message_of<TokenizerError>([&] { load_tokenizer(folder.path()); }).find("vocab.txt:2: is empty"),
            std::string::npos);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  EXPECT_NE(message_of<TokenizerError>([&] {
              load_tokenizer(folder.path());
            }).find("tokenizer_class = \"BertJapaneseTokenizer\": must be \"BertTokenizer\" or"),
            std::string::npos);
}

TEST(WordPiece, WhatIsNotBertsIsRefusedByName) {
  EXPECT_EQ(
      error_of([](json& f) {
        f["normalizer"] = {{"type", "NFC"}};
      }),
      "tokenizer.json: normalizer.type = \"NFC\": must be \"BertNormalizer\": only the WordPiece of BERT "
      "and the unigrams of XLM-RoBERTa are read here");
  EXPECT_EQ(
      error_of([](json& f) { f["pre_tokenizer"]["type"] = "Whitespace"; }),
      "tokenizer.json: pre_tokenizer.type = \"Whitespace\": must be \"BertPreTokenizer\": only the WordPiece "
      "of BERT and the unigrams of XLM-RoBERTa are read here");
  EXPECT_EQ(error_of([](json& f) { f["model"]["vocab"]["play"] = 5; }),
            "tokenizer.json: model.vocab: \"play\" has id 5: each token must have an id of its own");
  EXPECT_EQ(
      error_of([](json& f) { f["model"]["vocab"]["play"] = 9; }),
      "tokenizer.json: model.vocab: id of \"play\" = 9: must be an integer below 8, as so many tokens are "
      "there");
  EXPECT_EQ(error_of([](json& f) { f["model"]["unk_token"] = "<unk>"; }),
            "tokenizer.json: model.unk_token = \"<unk>\": is not a token of the vocabulary");
  EXPECT_EQ(error_of([](json& f) { f["added_tokens"][0]["id"] = 4; }),
            "tokenizer.json: added_tokens[0].id = 4: \"[PAD]\" has id 0 in model.vocab");
  EXPECT_EQ(
      error_of([](json& f) { f["model"]["continuing_subword_prefix"] = "@@"; }),
      "tokenizer.json: model.continuing_subword_prefix = \"@@\": must be \"##\": only the WordPiece of BERT "
      "and the unigrams of XLM-RoBERTa are read here");
  const FilesFolder folder;
  folder.write("tokenizer.json", form().dump());
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_NE(message_of<TokenizerError>([&] {
              load_tokenizer(folder.path());
            }).find("do_lower_case = false: tokenizer.json has lowercase = true"),
            std::string::npos);
}

// Three units of a trie for "A" alone, and what it becomes.
std::string table_of_a() {
  std::string bytes;
  const auto put = [&](uint32_t unit) { bytes.append(reinterpret_cast<const char*>(&unit), sizeof unit); };
  constexpr uint32_t kUnits = 128, kLeaf = 1U << 8;
  put(kUnits * sizeof(uint32_t));
  std::vector<uint32_t> units(kUnits);
  units[0] = 1U << 10;                      // its children are at 1 ^ byte
  units[1 ^ 'A'] = 'A' | kLeaf | 3U << 10;  // its value is at that place ^ 3
  units[(1 ^ 'A') ^ 3] = 2 | 1U << 31;      // behind "x" and its end
  for (const uint32_t unit : units) put(unit);
  return bytes + std::string("x\0ab\0", 5);
}

std::string in_base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<uint8_t>(byte);
    for (count += 8; count >= 6; count -= 6) text += kDigits[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kDigits[bits << (6 - count) & 63];
  return text;
}

json scored(const std::vector<std::pair<const char*, double>>& tokens) {
  json list = json::array();
  for (const auto& [token, score] : tokens) list.push_back(json::array({token, score}));
  return list;
}

json unigrams() {
  return {{"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", in_base64(table_of_a())}}},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}}},
          {"post_processor", {{"type", "RobertaProcessing"}, {"sep", {"</s>", 1}}, {"cls", {"<s>", 0}}}},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", 2},
            {"vocab", scored({{"<s>", 0},
                              {"</s>", 0},
                              {"<unk>", 0},
                              {"\u2581", -3},
                              {"\u2581ab", -5},
                              {"a", -1},
                              {"b", -1.5},
                              {"\u2581a", -4.5}})}}}};
}

TEST(Unigrams, CutWordsByTheHighestSum) {
  const FilesFolder folder;
  folder.write("tokenizer.json", unigrams().dump());
  const TokenizerPtr tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->encode("ab a"), (std::vector<int32_t>{4, 3, 5})) << "-5, not -5.5 or -6; -4, not -4.5";
  EXPECT_EQ(tokenizer->encode("A"), tokenizer->encode("ab")) << "by the table of characters";
  EXPECT_EQ(tokenizer->encode("bcdb"), (std::vector<int32_t>{3, 6, 2, 6})) << "what is unknown is one token";
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{4, 3, 5}), "ab a");
  EXPECT_EQ(tokenizer->bos(), 0);
  EXPECT_EQ(tokenizer->eot(), 1);
  EXPECT_EQ(tokenizer->encode("a</s>"), (std::vector<int32_t>{3, 5, 2})) << "a text has no special tokens";
  EXPECT_EQ(tokenizer->encode("a</s>", SpecialTokens::kRecognize), (std::vector<int32_t>{3, 5, 1}));
}

TEST(Unigrams, ThatAreNotXlmRobertasAreRefusedByName) {
  const auto problem = [](const std::function<void(json&)>& change) {
    const FilesFolder folder;
    json changed = unigrams();
    change(changed);
    folder.write("tokenizer.json", changed.dump());
    const std::string error = message_of<TokenizerError>([&] { load_tokenizer(folder.path()); });
    return error.substr(error.find("tokenizer.json"));
  };
  EXPECT_EQ(problem([](json& f) { f["model"]["vocab"][5] = "a"; }),
            "tokenizer.json: model.vocab[5] = \"a\": must be a token and its score");
  EXPECT_EQ(problem([](json& f) { f["model"]["vocab"][5][0] = "b"; }),
            "tokenizer.json: model.vocab[6]: \"b\" has id 6: each token must have an id of its own");
  EXPECT_EQ(problem([](json& f) { f["model"]["unk_id"] = nullptr; }),
            "tokenizer.json: model.unk_id = null: must be the number of the token for what is unknown");
  EXPECT_EQ(
      problem([](json& f) { f["normalizer"]["precompiled_charsmap"] = "AAAA"; }),
      "tokenizer.json: normalizer.precompiled_charsmap: is no table of characters, or not the whole of one");
  EXPECT_EQ(problem([](json& f) { f["normalizer"]["precompiled_charsmap"] = "*"; }),
            "tokenizer.json: normalizer.precompiled_charsmap: is not in base64");
  EXPECT_NE(problem([](json& f) {
              f["normalizer"]["precompiled_charsmap"] = in_base64(table_of_a() + std::string(2000, 'x'));
            }).find("replaces a character by 2000 bytes: must be at most 1024"),
            std::string::npos);
  EXPECT_NE(problem([](json& f) {
              f["pre_tokenizer"]["prepend_scheme"] = "first";
            }).find("prepend_scheme = \"first\": must be \"always\""),
            std::string::npos);
  EXPECT_NE(problem([](json& f) { f["model"]["byte_fallback"] = true; }).find("byte_fallback = true"),
            std::string::npos);
}

}  // namespace
}  // namespace pipeline::tokenizer
