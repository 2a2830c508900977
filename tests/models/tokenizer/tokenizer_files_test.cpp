#include "tokenizer/tokenizer_files.hpp"

#include <sys/stat.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "tests/models/tokenizer/fixtures.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tests::FilesFolder;
using tests::fixture;
using tests::message_of;
using tests::read_all;
using tests::trained_tokenizer;

json trained_json() { return json::parse(read_all(fixture("tokenizer.json"))); }

// The message for a tokenizer.json with one thing changed.
template <class Change>
std::string json_error(Change change) {
  json file = trained_json();
  change(file);
  return message_of<TokenizerError>([&] { parse_tokenizer_json({"t.json", file.dump()}); });
}

// The vocabulary of 256 bytes and "ab", as vocab.json.
json small_vocab() {
  json vocab;
  int id = 0;
  for (const uint8_t byte : alphabet_order())
    vocab[to_alphabet(std::string(1, static_cast<char>(byte)))] = id++;
  vocab["ab"] = id;
  return vocab;
}

std::string vocab_error(const json& vocab) {
  return message_of<TokenizerError>([&] { parse_vocab_and_merges({"v.json", vocab.dump()}, {"m.txt", ""}); });
}

std::string merges_error(const std::string& merges) {
  return message_of<TokenizerError>([&] {
    parse_vocab_and_merges({"v.json", small_vocab().dump()}, {"m.txt", merges});
  });
}

TEST(ByteAlphabet, IsThatOfGpt2) {
  EXPECT_EQ(to_alphabet(" a\n\t\x7f\xa0\xad~\xff"), "ĠaĊĉġłŃ~ÿ");
  EXPECT_EQ(to_alphabet(std::string(1, '\0')), "Ā");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(from_alphabet(to_alphabet(one)), one);
  }
  for (const char* text : {" ", "\n", "\u00ad", "\u00a0", "\u0144", "中", "\xff"})
    EXPECT_EQ(from_alphabet(text), std::nullopt);
  EXPECT_EQ(alphabet_order()[0], '!');
  EXPECT_EQ(alphabet_order()[188], 0);
  EXPECT_EQ(alphabet_order()[255], 0xad);
}

TEST(TokenizerFiles, BothFormsHoldTheSameTokenizer) {
  const FilesFolder folder;
  trained_tokenizer().save(folder.path());
  for (const char* name : {"", "vocab.json", "merges.txt", "tokenizer.json"}) {
    EXPECT_EQ(ByteLevelBpe::load(folder / name).fingerprint(), trained_tokenizer().fingerprint()) << name;
  }
  EXPECT_EQ(read_all(folder / "merges.txt"), read_all(fixture("merges.txt")))
      << "not as Hugging Face writes it";
  std::filesystem::remove(folder / "tokenizer.json");
  EXPECT_EQ(ByteLevelBpe::load(folder.path()).fingerprint(), trained_tokenizer().fingerprint());
}

TEST(TokenizerFiles, OpenAisNamesAndLineEndsOfAnotherSystemAreRead) {
  const FilesFolder folder;
  folder.write("encoder.json", small_vocab().dump());
  folder.write("vocab.bpe", "#version: 0.2\r\na b\r\n");
  const ByteLevelBpe tokenizer = ByteLevelBpe::load(folder.path());
  EXPECT_EQ(tokenizer.encode("ab"), std::vector<int32_t>{256});
  EXPECT_FALSE(tokenizer.has_eot());
}

TEST(TokenizerFiles, TheFormOfGpt2OnTheHubIsRead) {
  json file = trained_json();
  for (json& merge : file["model"]["merges"]) {  // one string each, as before tokenizers 0.20
    ASSERT_TRUE(merge.is_array());
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  for (const char* key : {"type", "byte_fallback", "ignore_merges"}) file["model"].erase(key);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) file["model"][key] = "";
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  file["post_processor"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}};
  file["added_tokens"][0]["normalized"] = true;
  EXPECT_EQ(ByteLevelBpe(parse_tokenizer_json({"t.json", file.dump()})).fingerprint(),
            trained_tokenizer().fingerprint());
}

// transformers 5 saves this template where a tokenizer was trained with nothing around a text.
TEST(TokenizerFiles, ATemplateThatAddsNothingIsNone) {
  json file = trained_json();
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"}, {"single", {text}}, {"special_tokens", json::object()}};
  const ByteLevelBpe tokenizer(parse_tokenizer_json({"t.json", file.dump()}));
  EXPECT_EQ(tokenizer.fingerprint(), trained_tokenizer().fingerprint());
  EXPECT_FALSE(tokenizer.adds_bos());
}

TEST(TokenizerFiles, MissingFilesAreNamed) {
  const FilesFolder folder;
  EXPECT_THAT(message_of<TokenizerError>([&] { ByteLevelBpe::load(folder.path()); }),
              HasSubstr(": is an empty folder: "));
  folder.write("notes.txt", "");
  EXPECT_EQ(message_of<TokenizerError>([&] { ByteLevelBpe::load(folder.path()); }),
            folder.path() +
                ": has no tokenizer: neither tokenizer.json, tokenizer.model nor vocab.json with merges.txt");
  EXPECT_THAT(message_of<TokenizerError>([&] { ByteLevelBpe::load(folder / "x.json"); }),
              StartsWith(folder / "x.json: cannot be read: No such file or directory"));
  folder.write("vocab.json", small_vocab().dump());
  EXPECT_THAT(message_of<TokenizerError>([&] { ByteLevelBpe::load(folder.path()); }),
              StartsWith(folder / "merges.txt: cannot be read: No such file or directory"));
  folder.write("merges.txt", "");
  folder.write("added_tokens.json", "{}");
  EXPECT_EQ(message_of<TokenizerError>([&] { ByteLevelBpe::load(folder.path()); }),
            folder /
                "added_tokens.json: added tokens are read from tokenizer.json only: save the tokenizer in "
                "that form");
  ASSERT_EQ(::mkfifo((folder / "pipe.json").c_str(), 0600), 0);
  EXPECT_EQ(message_of<TokenizerError>([&] { ByteLevelBpe::load(folder / "pipe.json"); }),
            folder / "pipe.json: is a pipe (FIFO), must be a regular file");
  std::filesystem::create_directory(folder / "tokenizer.json");
  EXPECT_EQ(message_of<TokenizerError>([&] { ByteLevelBpe::load(folder.path()); }),
            folder / "tokenizer.json: is a folder, must be a regular file");
  EXPECT_THAT(message_of<TokenizerError>([&] { trained_tokenizer().save(folder / "none"); }),
              StartsWith(folder / "none/merges.txt: cannot be written: "));
}

TEST(TokenizerFiles, AFullDiskIsToldFromOtherErrors) {
  const tests::FilesFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "tokenizer.json");
  try {
    tests::trained_tokenizer().save(folder.path());
    FAIL();
  } catch (const TokenizerError& error) {
    EXPECT_EQ(error.code(), ENOSPC) << error.what();
  }
}

TEST(VocabJson, DefectsAreNamed) {
  const auto changed = [](auto change) {
    json vocab = small_vocab();
    change(vocab);
    return vocab_error(vocab);
  };
  EXPECT_EQ(vocab_error(json::array()), "v.json: must be an object of ids by token");
  EXPECT_EQ(changed([](json& v) { v["ab"] = "256"; }),
            "v.json: id of \"ab\" = \"256\": must be a non-negative integer");
  EXPECT_EQ(changed([](json& v) { v["ab"] = -1; }),
            "v.json: id of \"ab\" = -1: must be a non-negative integer");
  EXPECT_EQ(changed([](json& v) { v["ab"] = 1.5; }),
            "v.json: id of \"ab\" = 1.5: must be a non-negative integer");
  EXPECT_EQ(changed([](json& v) { v["ab"] = ~uint64_t{0}; }),
            "v.json: id of \"ab\" = 9223372036854775807: must be from 0 to 2147483647");
  EXPECT_EQ(changed([](json& v) { v["ab"] = 300; }),
            "v.json: id of \"ab\" = 300: the ids of 257 tokens must be 0 to 256");
  EXPECT_EQ(changed([](json& v) { v["ab"] = 0; }), "v.json: \"!\" and \"ab\" both have id 0");
  EXPECT_EQ(changed([](json& v) { v["a b"] = 257; }),
            "v.json: token \"a b\": is not written in GPT-2's byte alphabet");
  EXPECT_EQ(changed([](json& v) { v[""] = 257; }),
            "v.json: token \"\": is not written in GPT-2's byte alphabet");
  EXPECT_EQ(
      changed([](json& v) {
        v.erase("Ġ");
        v["ab"] = 220;
      }),
      "v.json: byte 32, written \"\\u0120\", has no token: not the vocabulary of a byte-level tokenizer?");
  EXPECT_EQ(message_of<TokenizerError>([] {
              parse_vocab_and_merges({"v.json", R"({"a":0,"a":1})"}, {"m.txt", ""});
            }),
            "v.json: key \"a\" stands twice in one object");
  EXPECT_THAT(message_of<TokenizerError>([] {
                parse_vocab_and_merges({"v.json", "{"}, {"m.txt", ""});
              }),
              StartsWith("v.json: not valid JSON at byte "));
}

TEST(MergesTxt, DefectsAreNamedWithTheirLine) {
  const std::string shape = ": must be two tokens with one space between";
  EXPECT_EQ(merges_error("#version: 0.2\na b\nab"), "m.txt:3: \"ab\"" + shape);
  EXPECT_EQ(merges_error("a b c\n"), "m.txt:1: \"a b c\"" + shape);
  EXPECT_EQ(merges_error(" b\n"), "m.txt:1: \" b\"" + shape);
  EXPECT_EQ(merges_error("a \n"), "m.txt:1: \"a \"" + shape);
  EXPECT_EQ(merges_error("a b\n\n"), "m.txt:2: \"\"" + shape);
  EXPECT_EQ(merges_error("a b\n#version: 0.2\n"), "m.txt:2: \"#version:\" is not in the vocabulary");
  EXPECT_EQ(merges_error("a bb\n"), "m.txt:1: \"bb\" is not in the vocabulary");
  EXPECT_EQ(merges_error("b a\n"), "m.txt:1: \"ba\" is not in the vocabulary");
  EXPECT_EQ(merges_error("a b\na b\n"), "m.txt:2: \"a\" and \"b\" are also merge number 1");
  EXPECT_EQ(merges_error("\xff b\n"), "m.txt:1: \"\\ufffd\" is not in the vocabulary");
}

TEST(TokenizerJson, WhatIsNotGpt2sIsRefusedByName) {
  const std::string remedy =
      ": only the byte-level BPE of GPT-2, SmolLM, Llama 3, Qwen and CLIP is read here";
  EXPECT_EQ(json_error([](json& f) {
              f["normalizer"] = {{"type", "NFKC"}};
            }),
            "t.json: normalizer.type = \"NFKC\": must be \"NFC\"" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["normalizer"] = 1; }), "t.json: normalizer = 1: must be an object");
  EXPECT_EQ(json_error([](json& f) {
              f["pre_tokenizer"] = {{"type", "Whitespace"}};
            }),
            "t.json: pre_tokenizer.type = \"Whitespace\": must be \"ByteLevel\" or \"Sequence\"" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["pre_tokenizer"] = nullptr; }),
            "t.json: pre_tokenizer = null: must be an object");
  EXPECT_EQ(json_error([](json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }),
            "t.json: pre_tokenizer.add_prefix_space = true: must be false" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["pre_tokenizer"]["use_regex"] = false; }),
            "t.json: pre_tokenizer.use_regex = false: must be true" + remedy);
  EXPECT_EQ(json_error([](json& f) {
              f["post_processor"] = {{"type", "Strip"}};
            }),
            "t.json: post_processor.type = \"Strip\": must be \"ByteLevel\" or \"TemplateProcessing\" or "
            "\"RobertaProcessing\" or \"BertProcessing\"" +
                remedy);
  EXPECT_EQ(json_error([](json& f) {
              f["decoder"] = {{"type", "WordPiece"}};
            }),
            "t.json: decoder.type = \"WordPiece\": must be \"ByteLevel\"" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["model"]["type"] = "WordPiece"; }),
            "t.json: model.type = \"WordPiece\": must be \"BPE\"" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["model"]["dropout"] = 0.1; }),
            "t.json: model.dropout = 0.1: must be 0.0" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["model"]["end_of_word_suffix"] = "##"; }),
            "t.json: model.end_of_word_suffix = \"##\": must be \"\" or \"</w>\"" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["model"]["byte_fallback"] = true; }),
            "t.json: model.byte_fallback = true: must be false" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"][0]["single_word"] = true; }),
            "t.json: added_tokens[0].single_word = true: must be false" + remedy);
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"][0]["lstrip"] = 1; }),
            "t.json: added_tokens[0].lstrip = 1: must be false or true" + remedy);
}

TEST(TokenizerJson, WhatIsNeitherSmolLmsNorLlama3sIsRefusedByName) {
  const std::string remedy =
      ": only the byte-level BPE of GPT-2, SmolLM, Llama 3, Qwen and CLIP is read here";
  const auto error = [](const char* kind, auto change) {
    json file = json::parse(read_all(fixture(std::string("kinds/") + kind + "/tokenizer.json")));
    change(file);
    return message_of<TokenizerError>([&] { parse_tokenizer_json({"t.json", file.dump()}); });
  };
  const auto first = [](json& file) -> json& { return file["pre_tokenizer"]["pretokenizers"][0]; };
  EXPECT_EQ(error("smol_lm", [&](json& f) { first(f)["individual_digits"] = false; }),
            "t.json: pre_tokenizer.pretokenizers[0].individual_digits = false: must be true" + remedy);
  EXPECT_EQ(error("smol_lm", [&](json& f) { first(f)["type"] = "Punctuation"; }),
            "t.json: pre_tokenizer.pretokenizers[0].type = \"Punctuation\": must be \"Digits\" or \"Split\"" +
                remedy);
  EXPECT_EQ(error("smol_lm", [](json& f) { f["pre_tokenizer"]["pretokenizers"] = {1}; }),
            "t.json: pre_tokenizer.pretokenizers = [1]: must be a list of two");
  EXPECT_EQ(error("smol_lm", [](json& f) { f["model"]["unk_token"] = "<|endoftext|>"; }),
            "t.json: model.unk_token = \"<|endoftext|>\": must be null" + remedy);
  EXPECT_THAT(error("smol_lm", [](json& f) { f["model"]["vocab"].erase("Ġ"); }), HasSubstr("must be 0 to"));
  EXPECT_THAT(
      error("llama3", [&](json& f) { first(f)["pattern"]["Regex"] = "\\s+"; }),
      StartsWith("t.json: pre_tokenizer.pretokenizers[0].pattern = {\"Regex\":\"\\\\s+\"}: must be {"));
  EXPECT_EQ(error("llama3", [&](json& f) { first(f)["behavior"] = "Removed"; }),
            "t.json: pre_tokenizer.pretokenizers[0].behavior = \"Removed\": must be \"Isolated\"" + remedy);
  EXPECT_EQ(error("llama3", [](json& f) { f["pre_tokenizer"]["pretokenizers"][1].erase("use_regex"); }),
            "t.json: pre_tokenizer.pretokenizers[1].use_regex = null: must be false" + remedy);
  EXPECT_EQ(error("llama3", [](json& f) { f["post_processor"]["processors"][1]["single"] = {1}; }),
            "t.json: post_processor.processors[1].single = [1]: must be the text, with one special token "
            "before it, behind it, or both: no other template is read here");
  EXPECT_EQ(error("llama3", [](json& f) { f["added_tokens"][0]["content"] = "<|other|>"; }),
            "t.json: post_processor: adds \"<|begin_of_text|>\", which is not among the added_tokens");
}

class FilesOfOtherKinds : public ::testing::TestWithParam<const char*> {};

TEST_P(FilesOfOtherKinds, AreSavedInTheirOwnFormAlone) {
  const auto tokenizer = ByteLevelBpe::load(fixture(std::string("kinds/") + GetParam()));
  const FilesFolder folder;
  tokenizer.save(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / "vocab.json")) << "would be read as GPT-2's";
  const auto again = ByteLevelBpe::load(folder.path());
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(again.bos(), tokenizer.bos());
  EXPECT_EQ(again.adds_bos(), tokenizer.adds_bos());
  EXPECT_EQ(again.vocabulary().added, tokenizer.vocabulary().added);
}

INSTANTIATE_TEST_SUITE_P(TokenizerFiles, FilesOfOtherKinds, ::testing::Values("smol_lm", "llama3"));

TEST(TokenizerConfig, NamesWhatEndsAndBeginsAText) {
  const FilesFolder folder;
  folder.write("tokenizer.json", read_all(fixture("kinds/smol_lm/tokenizer.json")));
  const auto load = [&] { return ByteLevelBpe::load(folder.path()); };
  EXPECT_EQ(load().eot(), 0);  // <|endoftext|>
  EXPECT_EQ(load().bos(), std::nullopt);
  folder.write("tokenizer_config.json",
               R"({"eos_token": "<|im_end|>", "bos_token": {"content": "<|im_start|>"}})");
  const ByteLevelBpe tokenizer = load();
  EXPECT_EQ(tokenizer.eot(), 2);
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(ByteLevelBpe::load(folder / "tokenizer.json").eot(), 2);
  const FilesFolder saved;
  tokenizer.save(saved.path());
  for (const auto& again :
       {ByteLevelBpe::load(saved.path()), ByteLevelBpe::from_state(tokenizer.state(), "x")}) {
    EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
    EXPECT_EQ(again.eot(), 2);
    EXPECT_EQ(again.bos(), 1);
  }

  const auto llama3 = ByteLevelBpe::load(fixture("kinds/llama3"));
  EXPECT_EQ(llama3.eot(), *llama3.bos() + 1);  // <|end_of_text|>
  EXPECT_TRUE(llama3.adds_bos());
  EXPECT_EQ(llama3.encode("The"), llama3.encode("The", SpecialTokens::kRecognize));
}

TEST(TokenizerConfig, DefectsAreNamed) {
  const FilesFolder folder;
  folder.write("tokenizer.json", read_all(fixture("tokenizer.json")));
  const auto error = [&](const char* config) {
    folder.write("tokenizer_config.json", config);
    const std::string message = message_of<TokenizerError>([&] { ByteLevelBpe::load(folder.path()); });
    EXPECT_THAT(message, StartsWith(folder / "tokenizer_config.json: "));
    return message.substr(std::min(message.size(), (folder / "tokenizer_config.json: ").size()));
  };
  EXPECT_EQ(error(R"({"eos_token": "</s>"})"),
            "eos_token = \"</s>\": is not a token of the tokenizer: add it there, or name another");
  EXPECT_EQ(error(R"({"bos_token": 1})"), "bos_token = 1: must be a token");
  EXPECT_THAT(error(R"({"add_prefix_space": true})"), StartsWith("add_prefix_space = true: must be false"));
  EXPECT_THAT(error("{"), StartsWith("not valid JSON at byte "));
  EXPECT_EQ(
      error(
          R"({"added_tokens_decoder": {"511": {"content": "<|endoftext|>"}, "512": {"content": "[PAD]"}}})"),
      "added_tokens_decoder.512.content = \"[PAD]\": is not among the added tokens of tokenizer.json with "
      "this id: save the tokenizer again");
}

// What lies beside a tokenizer, of whatever kind its files are, goes through a checkpoint into an export,
// byte for byte.
TEST(FolderFiles, GoThroughACheckpointIntoAnExport) {
  const std::string config = R"({ "eos_token": "<|endoftext|>", "pad_token": "[PAD]", "padding_side":"left",
  "model_max_length": 1000000000000000019884624838656, "made_up": [1, {"a": null}] })";
  json form = trained_json();
  form["padding"] = {{"strategy", "BatchLongest"}, {"pad_id", 512}, {"pad_token", "[PAD]"}};
  form["truncation"] = {{"max_length", 8}};
  form["added_tokens"].push_back({{"id", 512}, {"content", "[PAD]"}, {"special", true}});
  const auto vocabulary = trained_tokenizer().vocabulary();
  const Files beside{{"tokenizer_config.json", config},
                     {"special_tokens_map.json", R"({"pad_token": "[PAD]"})"},
                     {"chat_template.jinja", "{% for m in messages %}\u00e9{{ m.content }}{% endfor %}"},
                     {"additional_chat_templates/tool.jinja", "{{ tools }}"}};
  for (const Files& tokens :
       {Files{{"tokenizer.json", form.dump(1)}},
        Files{{"vocab.json", format_vocab_json(vocabulary)}, {"merges.txt", format_merges(vocabulary)}}}) {
    const FilesFolder folder, saved;
    std::filesystem::create_directory(folder / "additional_chat_templates");
    Files all = beside;
    all.insert(tokens.begin(), tokens.end());
    for (const auto& [name, text] : all) folder.write(name, text);
    folder.write("README.md", "not kept");
    const TokenizerPtr read = load_tokenizer(folder.path());
    const TokenizerPtr more = read->with({{"generation_config.json", R"({"eos_token_id": [1]})"}});
    const TokenizerPtr kept = tokenizer_of_state(more->state(), "state");
    EXPECT_EQ(kept->fingerprint(), read->fingerprint());
    EXPECT_EQ(kept->state(), more->state());
    EXPECT_EQ(kept->files().at("generation_config.json"), R"({"eos_token_id": [1]})");
    kept->save(saved.path());
    for (const auto& [name, text] : all) EXPECT_EQ(read_all(saved / name), text) << name;
    EXPECT_FALSE(std::filesystem::exists(saved / "README.md"));
    EXPECT_FALSE(std::filesystem::exists(saved / "generation_config.json")) << "the model's";
    EXPECT_EQ(load_tokenizer(saved.path())->fingerprint(), read->fingerprint());
  }
}

TEST(FolderFiles, OfATrainedTokenizerAreAddedToIt) {
  const ByteLevelBpe trained(trained_tokenizer().vocabulary());
  EXPECT_FALSE(is_packed(trained.state())) << "as checkpoints have had it";
  const TokenizerPtr kept =
      tokenizer_of_state(trained.with({{"preprocessor_config.json", "{}"}})->state(), "state");
  EXPECT_EQ(kept->fingerprint(), trained.fingerprint());
  EXPECT_EQ(kept->files().at("preprocessor_config.json"), "{}");
}

TEST(FolderFiles, ATokenizerIsThereWhereItWouldBeReadFrom) {
  for (const auto& [name, is_one] : {std::pair("tokenizer.json", true),
                                     {"tokenizer.model", true},
                                     {"vocab.json", true},
                                     {"encoder.json", true},
                                     {"vocab.txt", true},
                                     {"tokenizer_config.json", false}}) {
    const FilesFolder folder;
    folder.write(name, "{}");
    EXPECT_EQ(has_tokenizer(folder.path()), is_one) << name;
    const std::string problem = message_of<TokenizerError>([&] { load_tokenizer(folder.path()); });
    EXPECT_EQ(problem.find("has no tokenizer") == problem.npos, is_one) << name;
  }
}

TEST(FolderFiles, AreBoundedAndOfKnownNames) {
  const FilesFolder folder;
  folder.write("tokenizer.json", read_all(fixture("tokenizer.json")));
  const auto error = [&](const char* name, const std::string& text) {
    folder.write(name, text);
    const std::string message = message_of<TokenizerError>([&] { load_tokenizer(folder.path()); });
    std::filesystem::remove(folder / name);
    return message;
  };
  EXPECT_THAT(error("chat_template.jinja", std::string((4 << 20) + 1, 'a')),
              StartsWith(folder / "chat_template.jinja: has more than 4194304 bytes"));
  EXPECT_EQ(error("chat_template.jinja", "a\xff"),
            folder / "chat_template.jinja: is not UTF-8 at byte 1: save it as UTF-8");
  EXPECT_THAT(error("special_tokens_map.json", "{"),
              StartsWith(folder / "special_tokens_map.json: not valid JSON"));
  const auto unpacked = [](const char* name) {
    return message_of<TokenizerError>([&] { unpack(pack({{name, "text"}}), "state"); });
  };
  for (const char* name : {"../x", "/etc/passwd", "additional_chat_templates/../x.jinja",
                           "additional_chat_templates/a/b.jinja", "notes"})
    EXPECT_THAT(unpacked(name), HasSubstr("which is no file of a tokenizer: it is damaged")) << name;
  EXPECT_EQ(message_of<TokenizerError>([] {
              tokenizer_of_state(pack({{"config.json", "{}"}}), "state");
            }),
            "state: is not the state of a tokenizer: it is damaged");
  std::string deep;  // {"a": {"a": ...
  for (int i = 0; i < 300000; ++i) deep += "\xa1\x61\x61";
  EXPECT_EQ(message_of<TokenizerError>([&] { unpack(deep, "state"); }),
            "state: is not the state of a tokenizer: it is damaged");
}

TEST(TokenizerJson, DefectsAreNamed) {
  EXPECT_EQ(json_error([](json& f) { f["model"].erase("merges"); }), "t.json: model.merges: must be a list");
  EXPECT_EQ(json_error([](json& f) { f.erase("model"); }), "t.json: model = null: must be an object");
  EXPECT_EQ(json_error([](json& f) { f = json::array(); }), "t.json: = []: must be an object");
  EXPECT_EQ(json_error([](json& f) { f["model"]["vocab"] = json::array(); }),
            "t.json: model.vocab: must be an object of ids by token");
  EXPECT_EQ(json_error([](json& f) { f["model"]["merges"][3] = 5; }),
            "t.json: model.merges[3] = 5: must be two tokens");
  EXPECT_EQ(json_error([](json& f) { f["model"]["merges"][3] = {"a"}; }),
            "t.json: model.merges[3] = [\"a\"]: must be two tokens");
  EXPECT_EQ(json_error([](json& f) {
              f["model"]["merges"][3] = {"zz", "q"};
            }),
            "t.json: model.merges[3]: \"zz\" is not in the vocabulary");
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"] = 1; }), "t.json: added_tokens = 1: must be a list");
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"][0]["content"] = 7; }),
            "t.json: added_tokens[0].content = 7: must be a string");
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"][0]["content"] = ""; }),
            "t.json: added_tokens[0].content: is empty");
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"][0]["id"] = "x"; }),
            "t.json: added_tokens[0].id = \"x\": must be a non-negative integer");
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"][0]["content"] = "!"; }),
            "t.json: model.vocab: id of \"!\" = 0: the added token has 511");
  EXPECT_EQ(json_error([](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); }),
            "t.json: added_tokens[1].content: \"<|endoftext|>\" was added before");
  EXPECT_EQ(json_error([](json& f) {
              f["model"]["vocab"]["Ġthe "] = 511;
              f["added_tokens"] = json::array();
            }),
            "t.json: model.vocab: token \"\\u0120the \": is not written in GPT-2's byte alphabet");
}

}  // namespace
}  // namespace pipeline::tokenizer
