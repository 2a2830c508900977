// tokenizer.model files; the library that reads them trains those of the tests.
// tests/parity/tokenizer_parity.py compares with transformers.
#include "tokenizer/sentence_piece.hpp"

#include <gmock/gmock.h>
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>

#include "tests/models/tokenizer/trained_sentence_piece.hpp"
#include "tests/support/test_files.hpp"
#include "tokenizer/byte_level_bpe.hpp"

namespace pipeline::tokenizer {
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

// The model's tokenizer.json, for folders that have no tokenizer.model. The sign for spaces is a matter of
// the normalizer, as transformers wrote it until 4.45.
json json_form() {
  FilesFolder folder, saved;
  load_tokenizer(with(folder, llama()).path())->save(saved.path());
  return json::parse(tests::read_all(saved / "tokenizer.json"));
}

// The model's tokenizer.json as transformers writes it since 4.45, with `legacy: false`.
json metaspace_form() {
  json form = json_form();
  form["normalizer"] = nullptr;
  form["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  return form;
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
    const auto within = tokenizer->encode(text, SpecialTokens::kAsText, TextPlace::kWithin);
    EXPECT_EQ(tokenizer->decode_bytes(within), text);
  }
  EXPECT_THAT(message_of<TokenizerError>([&] { tokenizer->decode(std::vector<int32_t>{330}); }),
              "token id = 330: must be from 0 to 329");
}

TEST(SentencePiece, IsReadOnceWhileItsFilesStayTheSame) {
  FilesFolder folder, other;
  with(folder, llama());
  with(other, llama());
  const TokenizerPtr first = load_tokenizer(folder.path());
  EXPECT_EQ(load_tokenizer(folder.path()), first);
  EXPECT_NE(load_tokenizer(other.path()), first) << "whose messages name another file";

  const TokenizerPtr again = load_tokenizer(folder.path());
  folder.write("tokenizer_config.json", R"({"eos_token": "<unk>"})");
  EXPECT_NE(load_tokenizer(folder.path())->eot(), again->eot());
  folder.write("tokenizer_config.json", R"({"eos_token": "<none>"})");
  for (int i = 0; i < 2; ++i) EXPECT_THROW(load_tokenizer(folder.path()), TokenizerError);
}

TEST(SentencePiece, AFileNestedDeepIsRefused) {
  FilesFolder folder;
  constexpr size_t kDepth = 1 << 20;
  folder.write("tokenizer.json",
               R"({"normalizer":)" + std::string(kDepth, '[') + R"("▁")" + std::string(kDepth, ']') + "}");
  EXPECT_THROW(load_tokenizer(folder.path()), TokenizerError);
}

TEST(SentencePiece, ATextInPartsIsTheWholeText) {
  FilesFolder folder;
  const auto tokenizer = load_tokenizer(with(folder, llama()).path());
  std::vector<int32_t> ids = tokenizer->encode("what is");
  tokenizer->encode_append(" the dog?", ids, SpecialTokens::kAsText, TextPlace::kWithin);
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

// Each special token takes one step of a loop.
TEST(SentencePiece, ManySpecialTokensInATextAreNoRecursion) {
  FilesFolder folder;
  const std::string model = trained("--user_defined_symbols=<im>");
  const json config{{"added_tokens_decoder", {{"3", {{"content", "<im>"}, {"special", true}}}}}};
  const TokenizerPtr tokenizer =
      load_tokenizer(with(folder, model, {{"tokenizer_config.json", config}}).path());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "<im>";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
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
  tokenizer->encode_append("cat", expected);
  EXPECT_EQ(tokenizer->after_special(), TextPlace::kStart);
  EXPECT_EQ(tokenizer->encode("the<image><image></s>cat", SpecialTokens::kRecognize), expected);
  EXPECT_EQ(tokenizer->decode(expected), "the<image><image></s> cat");
}

TEST(SentencePiece, ATokenizerJsonBesideItSaysWhereATextAfterASpecialTokenStands) {
  FilesFolder folder, saved;
  const json form = metaspace_form();
  const auto tokenizer = load_tokenizer(with(folder, llama(), {{"tokenizer.json", form}}).path());
  EXPECT_EQ(tokenizer->after_special(), TextPlace::kWithin);
  std::vector<int32_t> expected{2};
  tokenizer->encode_append("cat", expected, SpecialTokens::kAsText, TextPlace::kWithin);
  EXPECT_EQ(tokenizer->encode("</s>cat", SpecialTokens::kRecognize), expected);
  tokenizer_of_state(tokenizer->state(), "state")->save(saved.path());
  EXPECT_EQ(json::parse(tests::read_all(saved / "tokenizer.json")), form);
  EXPECT_EQ(load_tokenizer(saved.path())->fingerprint(), tokenizer->fingerprint());
  FilesFolder alone;
  EXPECT_NE(load_tokenizer(with(alone, llama()).path())->fingerprint(), tokenizer->fingerprint());
}

TEST(SentencePiece, WithoutATokenizerJsonTheConfigurationSaysIt) {
  FilesFolder folder, saved, both;
  const json config = json::object({{"legacy", false}});
  const auto tokenizer = load_tokenizer(with(folder, llama(), {{"tokenizer_config.json", config}}).path());
  EXPECT_EQ(tokenizer->after_special(), TextPlace::kWithin);
  tokenizer_of_state(tokenizer->state(), "state")->save(saved.path());
  const json form = json::parse(tests::read_all(saved / "tokenizer.json"));
  EXPECT_EQ(form["pre_tokenizer"], metaspace_form()["pre_tokenizer"]) << "as Hugging Face's has it";
  EXPECT_EQ(form["normalizer"], json());
  EXPECT_EQ(load_tokenizer(saved.path())->fingerprint(), tokenizer->fingerprint());

  const json starts = json::object({{"pre_tokenizer", nullptr}});
  const auto other = load_tokenizer(
      with(both, llama(), {{"tokenizer.json", starts}, {"tokenizer_config.json", config}}).path());
  EXPECT_EQ(other->after_special(), TextPlace::kStart) << "tokenizer.json goes before it";
  EXPECT_EQ(tokenizer_of_state(other->state(), "state")->after_special(), TextPlace::kStart);
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
  EXPECT_EQ(message_of<TokenizerError>([&] { tokenizer_of_state(state.substr(0, 99), "state"); }),
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
    return message_of<TokenizerError>([&] { load_tokenizer(with(folder, model).path()); });
  };
  const std::string start =
      folder / "tokenizer.model: is not a SentencePiece model, or not the whole of one: ";
  EXPECT_EQ(error(""), start + "0 bytes: copy it again");
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\n"),
              StartsWith(folder / "tokenizer.model: is a Git LFS pointer"));
  for (size_t size = 1; size < llama().size(); size += 97)
    EXPECT_THAT(error(llama().substr(0, size)), StartsWith(start)) << size;
  EXPECT_THAT(error(trained("--treat_whitespace_as_suffix=true")), HasSubstr("treat_whitespace_as_suffix"));
  EXPECT_EQ(
      message_of<TokenizerError>([&] { load_tokenizer(folder / "none.model"); }),
      folder / "none.model: cannot be read: No such file or directory: check the path and its permissions");
}

TEST(SentencePiece, FilesThatDoNotBelongTogetherAreRefused) {
  FilesFolder folder;
  const auto error = [&](const char* name, const json& value) {
    return message_of<TokenizerError>([&] { load_tokenizer(with(folder, llama(), {{name, value}}).path()); });
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
                "added_tokens.json: \"<image>\": \"<image>\" has id 331: the token before it is missing: 330 "
                "are there");
  EXPECT_EQ(error("added_tokens.json", {{"<image>", "x"}}),
            folder / "added_tokens.json: \"<image>\" = \"x\": must be a non-negative integer");
  folder.write("added_tokens.json", "{}");
  EXPECT_EQ(error("tokenizer_config.json", decoder("330", {{"content", "<a>"}, {"single_word", true}})),
            folder /
                "tokenizer_config.json: added_tokens_decoder.330.single_word = true: must be false: the "
                "tokenizers of Llama 1 and 2 have no other");
  EXPECT_EQ(error("tokenizer_config.json", decoder("x", {{"content", "<a>"}})),
            folder / "tokenizer_config.json: added_tokens_decoder: key \"x\": must be a token's id");
  EXPECT_EQ(error("tokenizer_config.json", {{"eos_token", "<end>"}}),
            folder /
                "tokenizer_config.json: eos_token = \"<end>\": is not a token of the tokenizer: add it "
                "there, or name another");
}

TEST(SentencePiece, OfTwoTokenizersTheOneThatCanBeReadIsMeant) {
  FilesFolder folder;
  const json special{{"id", 256}, {"content", "<|end_of_text|>"}, {"special", true}};
  with(folder, "IQ== 0\nIg== 1\n");  // Llama 3's form of the file
  EXPECT_THAT(message_of<TokenizerError>([&] { load_tokenizer(folder.path()); }),
              HasSubstr("not a SentencePiece model"));
  folder.write("tokenizer.json", "{}");
  EXPECT_THAT(message_of<TokenizerError>([&] { load_tokenizer(folder.path()); }),
              HasSubstr("tokenizer.json"));
  with(folder, llama());
  EXPECT_EQ(load_tokenizer(folder.path())->vocab_size(), 330) << "a tokenizer.json says the same again";
}

TokenizerPtr load_json(const json& form, const json& config = {}) {
  const FilesFolder folder;
  folder.write("tokenizer.json", form.dump());
  if (!config.is_null()) folder.write("tokenizer_config.json", config.dump());
  return load_tokenizer(folder.path());
}

TEST(SentencePieceJson, GivesTheLibrarysIds) {
  const auto tokenizer = load_json(metaspace_form()), legacy = load_json(json_form());
  for (const std::string& text : texts()) {
    const auto expected = librarys_ids(llama(), text);
    EXPECT_EQ(legacy->encode(text), expected) << text;
    // Metaspace puts no sign before another one.
    if (!text.starts_with(' ') && !text.starts_with("▁")) {
      EXPECT_EQ(tokenizer->encode(text), expected) << text;
    }
    if (text != "▁a") {
      EXPECT_EQ(legacy->decode(expected), text);
    }
    EXPECT_EQ(legacy->encode(text, SpecialTokens::kAsText, TextPlace::kWithin),
              tokenizer->encode(text, SpecialTokens::kAsText, TextPlace::kWithin));
  }
  EXPECT_EQ(tokenizer->encode("the"), tokenizer->encode(" the"));
  EXPECT_EQ(tokenizer->vocab_size(), 330);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eot(), 2);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_FALSE(load_json(json_form(), {{"add_bos_token", false}})->adds_bos());
}

TEST(SentencePieceJson, ATextAfterASpecialTokenStartsInTheLegacyFormAlone) {
  for (const bool is_legacy : {false, true}) {
    json form = is_legacy ? json_form() : metaspace_form();
    form["added_tokens"].push_back({{"id", 330}, {"content", "<image>"}, {"special", true}});
    const auto tokenizer = load_json(form);
    std::vector<int32_t> expected = tokenizer->encode("the");
    expected.push_back(330);
    tokenizer->encode_append("cat", expected, SpecialTokens::kAsText,
                             is_legacy ? TextPlace::kStart : TextPlace::kWithin);
    EXPECT_EQ(tokenizer->encode("the<image>cat", SpecialTokens::kRecognize), expected);
    EXPECT_THAT(tokenizer->encode("the<image>cat"), testing::Not(testing::Contains(330)));
  }
}

// A file as Siglip2Tokenizer saves it: lower case, and the token that ends a text behind it.
TEST(SentencePieceJson, OfSiglip2) {
  json form = json_form();
  const json signs = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const char* token) {
    return json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  };
  form["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  form["decoder"]["decoders"].erase(3);  // no space is put before a text
  form["normalizer"] = signs;
  form["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {sequence, special("</s>")}}};
  const auto as_it_is = load_json(form);
  EXPECT_EQ(as_it_is->eot(), 2);
  EXPECT_FALSE(as_it_is->adds_bos());
  form["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}, signs}}};
  form["post_processor"]["single"] = {special("<s>"), sequence, special("</s>")};
  const auto small = load_json(form);
  EXPECT_TRUE(small->adds_bos());
  EXPECT_EQ(small->eot(), 2);
  EXPECT_EQ(small->encode("THE Cat, ÜBER"), as_it_is->encode("the cat, über"));
  EXPECT_NE(as_it_is->encode("THE Cat"), as_it_is->encode("the cat"));
  EXPECT_NE(small->fingerprint(), as_it_is->fingerprint());
  form["post_processor"]["single"] = {sequence, special("</s>"), special("</s>")};
  EXPECT_THAT(message_of<TokenizerError>([&] { load_json(form); }),
              HasSubstr("with one special token before it, behind it"));
  form["post_processor"]["single"] = {sequence, special("<end>")};
  EXPECT_THAT(message_of<TokenizerError>([&] { load_json(form); }),
              HasSubstr("adds \"<end>\", which is not among"));
}

// A field of bytes in a file of protobuf's.
std::string field(const std::string& bytes) {
  std::string size;
  for (size_t rest = bytes.size(); rest > 0; rest >>= 7)
    size += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  return "\x0a" + size + bytes;
}

TEST(SentencePieceJson, ALongPieceTakesNoMoreThanItsLength) {
  FilesFolder folder, saved;
  const std::string piece(1 << 20, 'a');  // minutes, were it the square
  load_tokenizer(with(folder, llama() + field(field(piece))).path())->save(saved.path());
  EXPECT_EQ(json::parse(tests::read_all(saved / "tokenizer.json"))["model"]["vocab"][piece], 330);
}

TEST(SentencePieceJson, ALongTextTakesNoMoreThanItsLength) {
  std::string text;
  while (text.size() < 1 << 20) text += "the cat sat on the mat 猫 ";  // minutes, were it the square
  const auto tokenizer = load_json(json_form());
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_LT(ids.size(), text.size() / 2);
}

TEST(SentencePieceJson, AWordThatTheFilesNameEndsAText) {
  const json form = json_form();
  const json& vocab = form["model"]["vocab"];
  const std::string word = vocab.contains("at") ? "at" : "he";
  ASSERT_TRUE(vocab.contains(word)) << vocab.dump();
  const auto id = vocab[word].get<int32_t>();
  EXPECT_THAT(load_json(form)->encode(word, SpecialTokens::kAsText, TextPlace::kWithin),
              testing::Contains(id));
  const auto tokenizer = load_json(form, {{"eos_token", word}});
  EXPECT_EQ(tokenizer->eot(), id);
  EXPECT_THAT(tokenizer->encode(word, SpecialTokens::kRecognize), testing::Contains(id));
  EXPECT_THAT(tokenizer->encode(word, SpecialTokens::kAsText, TextPlace::kWithin),
              testing::Not(testing::Contains(id)));
  EXPECT_EQ(tokenizer_of_state(tokenizer->state(), "state")->eot(), id);
}

TEST(SentencePieceJson, StateAndFilesAreTheSameTokenizer) {
  const auto tokenizer = load_json(json_form(), {{"eos_token", "<s>"}});
  const auto again = tokenizer_of_state(tokenizer->state(), "state");
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(again->eot(), 1);
  const FilesFolder saved;
  again->save(saved.path());
  EXPECT_EQ(load_tokenizer(saved.path())->fingerprint(), tokenizer->fingerprint());
  EXPECT_NE(load_json(metaspace_form(), {{"eos_token", "<s>"}})->fingerprint(), tokenizer->fingerprint());
}

TEST(SentencePieceJson, WhatWouldMakeOtherIdsIsRefused) {
  const auto error = [&](const char* pointer, const json& value) {
    json form = metaspace_form();
    form[json::json_pointer(pointer)] = value;
    return message_of<TokenizerError>([&] { load_json(form); });
  };
  EXPECT_THAT(error("/pre_tokenizer/split", true),
              HasSubstr("tokenizer.json: pre_tokenizer.split = true: must be false: the tokenizer.json of "
                        "Llama 1 and 2 has no other"));
  EXPECT_THAT(error("/pre_tokenizer", nullptr), HasSubstr("normalizer = null: must be"));
  EXPECT_THAT(error("/normalizer", {{"type", "NFC"}}), HasSubstr("normalizer"));
  EXPECT_THAT(error("/model/ignore_merges", true), HasSubstr("model.ignore_merges = true: must be false"));
  EXPECT_THAT(error("/decoder/decoders/0/content", "_"), HasSubstr("decoder.decoders = "));
  EXPECT_THAT(error("/model/merges/0", {"qq", "zz"}),
              HasSubstr("model.merges[0]: \"qq\" is not in the vocab"));
  EXPECT_THAT(error("/model/merges/0", "abc"), HasSubstr("model.merges[0] = \"abc\": must be two tokens"));
  EXPECT_THAT(error("/model/merges/0", json_form()["model"]["merges"][1]), HasSubstr("is there twice"));
  EXPECT_THAT(error("/model/vocab/a", 2000), HasSubstr("id of \"a\" = 2000"));
  EXPECT_THAT(error("/model/vocab/a", 3), HasSubstr("has id 3, which is"));
  EXPECT_THAT(error("/model/unk_token", "<none>"), HasSubstr("model.unk_token = \"<none>\""));
  EXPECT_THAT(error("/added_tokens/0/single_word", true),
              HasSubstr("added_tokens[0].single_word = true: must be false"));
  EXPECT_THAT(error("/added_tokens/0/id", 1), HasSubstr("\"<unk>\" has 0 in the vocabulary"));
  EXPECT_THAT(error("/post_processor/single/0/SpecialToken/id", "the"),
              HasSubstr("is not among the added_tokens"));
}

}  // namespace
}  // namespace pipeline::tokenizer
