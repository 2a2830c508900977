// WordPiece's files and what is wrong with them; tests/parity/tokenizer_parity.py compares its ids with Hugging Face's.
#include "tokenizer/word_piece.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/models/tokenizer/fixtures.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;

json form() {
  return {{"added_tokens",
           {{{"id", 0}, {"content", "[PAD]"}, {"special", true}}, {{"id", 2}, {"content", "[CLS]"}, {"special", true}},
            {{"id", 3}, {"content", "[SEP]"}, {"special", true}}}},
          {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", nullptr}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"vocab",
             {{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}, {"play", 4}, {"##ing", 5}, {"cafe", 6}, {"!", 7}}}}}};
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
}

TEST(WordPiece, WhatIsNotBertsIsRefusedByName) {
  EXPECT_EQ(error_of([](json& f) { f["normalizer"] = {{"type", "NFC"}}; }),
            "tokenizer.json: normalizer.type = \"NFC\": must be \"BertNormalizer\": only the WordPiece of BERT is "
            "read here");
  EXPECT_EQ(error_of([](json& f) { f["pre_tokenizer"]["type"] = "Whitespace"; }),
            "tokenizer.json: pre_tokenizer.type = \"Whitespace\": must be \"BertPreTokenizer\": only the WordPiece "
            "of BERT is read here");
  EXPECT_EQ(error_of([](json& f) { f["model"]["vocab"]["play"] = 5; }),
            "tokenizer.json: model.vocab: \"play\" has id 5: each token must have an id of its own");
  EXPECT_EQ(error_of([](json& f) { f["model"]["vocab"]["play"] = 9; }),
            "tokenizer.json: model.vocab: no token has id 4 of 10");
  EXPECT_EQ(error_of([](json& f) { f["model"]["unk_token"] = "<unk>"; }),
            "tokenizer.json: model.unk_token = \"<unk>\": is not a token of the vocabulary");
  EXPECT_EQ(error_of([](json& f) { f["added_tokens"][0]["id"] = 4; }),
            "tokenizer.json: added_tokens[0].id = 4: \"[PAD]\" has id 0 in model.vocab");
  EXPECT_EQ(error_of([](json& f) { f["model"]["continuing_subword_prefix"] = "@@"; }),
            "tokenizer.json: model.continuing_subword_prefix = \"@@\": must be \"##\": only the WordPiece of BERT is "
            "read here");
  const FilesFolder folder;
  folder.write("tokenizer.json", form().dump());
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_NE(message_of<TokenizerError>([&] {
              load_tokenizer(folder.path());
            }).find("do_lower_case = false: tokenizer.json has lowercase = true"),
            std::string::npos);
}

}  // namespace
}  // namespace pipeline::tokenizer
