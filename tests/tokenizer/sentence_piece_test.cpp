// tokenizer.model files; the library that reads them trains those of the tests.
// tests/parity/tokenizer_parity.py compares with transformers.
#include "tokenizer/sentence_piece.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>

#include "tests/support/test_files.hpp"
#include "tests/tokenizer/trained_sentence_piece.hpp"
#include "tokenizer/byte_level_bpe.hpp"

namespace pipeline::text {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using tests::FilesFolder;
using tests::message_of;

std::string trained(const std::string& more = "") { return tests::trained_sentence_piece(more); }

const std::string& llama() {
  static const std::string model = trained();
  return model;
}

// A folder with the model and these files.
FilesFolder& with(FilesFolder& folder, const std::string& model,
                  const std::vector<std::pair<std::string, json>>& files = {}) {
  folder.write("tokenizer.model", model);
  for (const auto& [name, value] : files) folder.write(name, value.dump());
  return folder;
}

std::vector<int> librarys_ids(const std::string& model, const std::string& text) {
  sentencepiece::SentencePieceProcessor processor;
  EXPECT_TRUE(processor.LoadFromSerializedProto(model).ok());
  return processor.EncodeAsIds(text);
}

std::vector<std::string> texts() {
  return {"the cat",
          "",
          " ",
          "   ",
          " the cat",
          "the  cat ",
          "a\nb\n\nc",
          "\n",
          "dog, hat?",
          "über 猫 猫頭鷹",
          "👩‍👩‍👧 ok 😀",
          "e\u0301",
          "\t\x01",
          "</s><s><unk>",
          "<0x41>",
          "▁a",
          "1999"};
}

TEST(SentencePiece, IdsAreTheLibrarys) {
  FilesFolder folder;
  const auto tokenizer = load_tokenizer(with(folder, llama()).path());
  for (const std::string& text : texts())
    EXPECT_EQ(tokenizer->encode(text), librarys_ids(llama(), text)) << text;
  EXPECT_EQ(tokenizer->vocab_size(), 330);
}

TEST(SentencePiece, TextsComeBack) {
  FilesFolder folder;
  const auto tokenizer = load_tokenizer(with(folder, llama()) / "tokenizer.model");
  for (const std::string& text : texts()) {
    if (text == "▁a") continue;  // the library takes the sign for a space
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    const auto within = tokenizer->encode(text, SpecialTokens::kAsText, Place::kWithin);
    EXPECT_EQ(tokenizer->decode_bytes(within), text);
  }
  EXPECT_THAT(message_of<Error>([&] { tokenizer->decode(std::vector<int32_t>{330}); }),
              "token id = 330: must be from 0 to 329");
}

TEST(SentencePiece, ATextInPartsIsTheWholeText) {
  FilesFolder folder;
  const auto tokenizer = load_tokenizer(with(folder, llama()).path());
  std::vector<int32_t> ids = tokenizer->encode("what is");
  tokenizer->encode_append(" the dog?", ids, SpecialTokens::kAsText, Place::kWithin);
  EXPECT_EQ(ids, tokenizer->encode("what is the dog?"));
}

TEST(SentencePiece, AStreamIsItsPartsPutTogether) {
  FilesFolder folder;
  const auto tokenizer = load_tokenizer(with(folder, llama()).path());
  const std::string text = "the 😀 cat";
  const std::vector<int32_t> ids = tokenizer->encode(text);
  std::string stream;
  for (const int32_t id : ids) stream += tokenizer->decode_bytes(std::vector{id});
  EXPECT_EQ(stream, " " + text) << "with the space that encoding put before it";
  EXPECT_EQ(tokenizer->decode(std::span(ids).first(ids.size() - 3)).substr(0, 4), "the ");
}

TEST(SentencePiece, WhatPeopleWriteIsNeverASpecialToken) {
  // <im> is a piece that the library finds in any text, as Yi's <|im_start|> is.
  FilesFolder folder;
  const std::string model = trained("--user_defined_symbols=<im>");
  ASSERT_THAT(librarys_ids(model, "<im>"), testing::Contains(3));
  const json config{{"added_tokens_decoder", {{"3", {{"content", "<im>"}, {"special", true}}}}}};
  const auto tokenizer = load_tokenizer(
      with(folder, model, {{"tokenizer_config.json", config}, {"added_tokens.json", {{"<image>", 330}}}})
          .path());
  const std::string text = "a <im> </s><im> <image> cat <s>";
  const std::vector<int32_t> ids = tokenizer->encode(text);
  for (const int32_t special : {1, 2, 3, 330}) EXPECT_THAT(ids, testing::Not(testing::Contains(special)));
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_THAT(tokenizer->encode("<s>cat<im></s><image>", SpecialTokens::kRecognize),
              testing::AllOf(testing::Contains(1), testing::Contains(2), testing::Contains(3),
                             testing::Contains(330)));
}

TEST(SentencePiece, SpecialTokensAreRecognizedInTemplates) {
  FilesFolder folder;
  const auto tokenizer = load_tokenizer(
      with(folder, llama(), {{"added_tokens.json", {{"<image>", 330}, {"<pad>", 331}}}}).path());
  EXPECT_EQ(tokenizer->vocab_size(), 332);
  EXPECT_EQ(tokenizer->special_token("<image>"), 330);
  EXPECT_EQ(tokenizer->special_token("cat"), std::nullopt);
  std::vector<int32_t> expected = tokenizer->encode("the");
  expected.insert(expected.end(), {330, 330, 2});
  tokenizer->encode_append("cat", expected, SpecialTokens::kAsText, Place::kWithin);
  EXPECT_EQ(tokenizer->encode("the<image><image></s>cat", SpecialTokens::kRecognize), expected);
  EXPECT_EQ(tokenizer->decode(expected), "the<image><image></s>cat");
}

TEST(SentencePiece, TheConfigurationNamesWhatBeginsAndEnds) {
  FilesFolder folder;
  const auto load = [&](const json& config) {
    return load_tokenizer(with(folder, llama(), {{"tokenizer_config.json", config}}).path());
  };
  const auto plain = load(json::object());
  EXPECT_EQ(plain->bos(), 1);
  EXPECT_EQ(plain->eot(), 2);
  EXPECT_TRUE(plain->adds_bos());
  const auto other = load({{"add_bos_token", false},
                           {"bos_token", {{"content", "</s>"}}},
                           {"eos_token", "<end>"},
                           {"added_tokens_decoder", {{"330", {{"content", "<end>"}}}}}});
  EXPECT_EQ(other->bos(), 2);
  EXPECT_EQ(other->eot(), 330);
  EXPECT_FALSE(other->adds_bos());
  EXPECT_NE(plain->fingerprint(), other->fingerprint());
}

TEST(SentencePiece, StateAndFilesAreTheSameTokenizer) {
  FilesFolder folder, saved;
  const json config{{"add_bos_token", true}, {"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}};
  const auto tokenizer = load_tokenizer(
      with(folder, llama(), {{"tokenizer_config.json", config}, {"added_tokens.json", {{"<image>", 330}}}})
          .path());
  EXPECT_EQ(tokenizer_of_state(tokenizer->state(), "state")->fingerprint(), tokenizer->fingerprint());
  tokenizer_of_state(tokenizer->state(), "state")->save(saved.path());
  for (const char* name : {"tokenizer.model", "tokenizer_config.json", "added_tokens.json"})
    EXPECT_EQ(tests::read_all(saved / name), tests::read_all(folder / name)) << name;
  const std::string state = tokenizer->state();
  EXPECT_EQ(message_of<Error>([&] { tokenizer_of_state(state.substr(0, 99), "state"); }),
            "state: is not the state of a tokenizer: it is damaged");
  FilesFolder alone, again;
  load_tokenizer(with(alone, llama()).path())->save(again.path());
  EXPECT_EQ(json::parse(tests::read_all(again / "tokenizer_config.json"))["eos_token"], "</s>");
  EXPECT_EQ(load_tokenizer(again.path())->fingerprint(), load_tokenizer(alone.path())->fingerprint());
  const json form = json::parse(tests::read_all(again / "tokenizer.json"));
  EXPECT_EQ(form["model"]["vocab"].size(), 330u);
  EXPECT_THAT(form["model"]["merges"], testing::Contains(json({"\u2581t", "he"})));
}

TEST(SentencePiece, ModelsWithoutASpaceBeforeTextsStayWithout) {
  FilesFolder folder;
  const std::string model = trained("--add_dummy_prefix=false");
  const auto tokenizer = load_tokenizer(with(folder, model).path());
  EXPECT_EQ(tokenizer->encode("the cat"), librarys_ids(model, "the cat"));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" the cat")), " the cat");
}

TEST(SentencePiece, WhatATokenizerJsonCannotSayHasNone) {
  for (const char* option : {"--normalization_rule_name=nmt_nfkc", "--remove_extra_whitespaces=true"}) {
    FilesFolder folder, saved;
    load_tokenizer(with(folder, trained(option)).path())->save(saved.path());
    EXPECT_TRUE(std::filesystem::exists(saved / "tokenizer.model"));
    EXPECT_FALSE(std::filesystem::exists(saved / "tokenizer.json")) << option;
  }
}

TEST(SentencePiece, DamagedFilesAreRefused) {
  FilesFolder folder;
  const auto error = [&](const std::string& model) {
    return message_of<Error>([&] { load_tokenizer(with(folder, model).path()); });
  };
  const std::string start =
      folder / "tokenizer.model: is not a SentencePiece model, or not the whole of one: ";
  EXPECT_EQ(error(""), start + "0 bytes: copy it again");
  EXPECT_EQ(error("version https://git-lfs.github.com/spec/v1\n"), start + "43 bytes: copy it again");
  for (size_t size = 1; size < llama().size(); size += 97)
    EXPECT_THAT(error(llama().substr(0, size)), StartsWith(start)) << size;
  EXPECT_THAT(error(trained("--treat_whitespace_as_suffix=true")), HasSubstr("treat_whitespace_as_suffix"));
  EXPECT_EQ(message_of<Error>([&] { load_tokenizer(folder / "none.model"); }),
            folder / "none.model: cannot be read: No such file or directory");
}

TEST(SentencePiece, FilesThatDoNotBelongTogetherAreRefused) {
  FilesFolder folder;
  const auto error = [&](const char* name, const json& value) {
    return message_of<Error>([&] { load_tokenizer(with(folder, llama(), {{name, value}}).path()); });
  };
  const auto decoder = [](const char* id, const json& token) {
    return json{{"added_tokens_decoder", {{id, token}}}};
  };
  EXPECT_EQ(error("added_tokens.json", {{"<image>", 5}}),
            folder /
                "added_tokens.json: \"<image>\": \"<image>\" has id 5, which is \"\\u0002\" in "
                "tokenizer.model: the files do not belong together");
  EXPECT_EQ(error("added_tokens.json", {{"<image>", 331}}),
            folder /
                "added_tokens.json: \"<image>\": \"<image>\" has id 331: the token before it is missing: "
                "330 are there");
  EXPECT_EQ(error("added_tokens.json", {{"<image>", "x"}}),
            folder / "added_tokens.json: \"<image>\" = \"x\": must be a non-negative integer");
  folder.write("added_tokens.json", "{}");
  EXPECT_EQ(error("tokenizer_config.json", decoder("330", {{"content", "<a>"}, {"rstrip", true}})),
            folder /
                "tokenizer_config.json: added_tokens_decoder.330.rstrip = true: must be false: the "
                "tokenizers of Llama 1 and 2 have no other");
  EXPECT_EQ(error("tokenizer_config.json", decoder("x", {{"content", "<a>"}})),
            folder / "tokenizer_config.json: added_tokens_decoder: key \"x\": must be a token's id");
  EXPECT_EQ(error("tokenizer_config.json", {{"eos_token", "<end>"}}),
            folder /
                "tokenizer_config.json: eos_token = \"<end>\": is not a special token of the tokenizer: "
                "add it there, or name another");
}

TEST(SentencePiece, OfTwoTokenizersTheOneThatCanBeReadIsMeant) {
  FilesFolder folder;
  const json special{{"id", 256}, {"content", "<|end_of_text|>"}, {"special", true}};
  with(folder, "IQ== 0\nIg== 1\n");  // as Llama 3 has it
  EXPECT_THAT(message_of<Error>([&] { load_tokenizer(folder.path()); }),
              HasSubstr("not a SentencePiece model"));
  folder.write("tokenizer.json", "{}");
  EXPECT_THAT(message_of<Error>([&] { load_tokenizer(folder.path()); }), HasSubstr("tokenizer.json"));
  with(folder, llama());
  EXPECT_EQ(load_tokenizer(folder.path())->vocab_size(), 330) << "a tokenizer.json says the same again";
}

}  // namespace
}  // namespace pipeline::text
