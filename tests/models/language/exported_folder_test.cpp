// An exported folder is the one that the model came from, but for what was learnt.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <fstream>

#include "core/safetensors/file.hpp"
#include "hugging_face/token_ids.hpp"
#include "language/architecture.hpp"
#include "language/folder.hpp"
#include "language/options.hpp"
#include "tests/support/declared.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/weight_files.hpp"

namespace pipeline::language {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using tests::FilesFolder;

// Fields stay but for what this model says otherwise; tensors stay to the bit, in the type they came in.
TEST(ExportedFolder, IsAsTheModelCame) {
  const std::string source =
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 24,
    "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "tie_word_embeddings": false,
    "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e3}, "attention_dropout": 0.0,
    "use_cache": false, "dtype": "bfloat16", "bos_token_id": null, "pretraining_tp": 3, "_my_note": [1, 2]})";
  const Config came = read_config(hugging_face::ConfigFile::of("config.json", source));
  LanguageModel model(came);
  tests::initialize(model, 3);
  for (const auto& parameter : model.parameters())
    at::Tensor(parameter.tensor).detach().copy_(parameter.tensor.detach().to(at::kBFloat16));
  const auto exported = [&](const LanguageModel& one) {
    FilesFolder folder;
    export_model(folder.path(), one, {{"config.json", source}});
    hugging_face::write_token_ids(folder.path(), {{"config.json", source}},
                                  {5, 6, [](int64_t) { return true; }});
    const auto files = safetensors::Folder::open(folder.path());
    EXPECT_EQ(files.at("model.embed_tokens.weight").dtype_name(), "BF16");
    EXPECT_EQ(files.at("model.embed_tokens.weight").shape[0], 24);
    LanguageModel again(came);
    import_model(folder.path(), again);
    tests::initialize(again, 4);
    for (size_t i = 0; i < one.parameters().size(); ++i)
      EXPECT_TRUE(one.parameters()[i].tensor.equal(again.parameters()[i].tensor)) << one.parameters()[i].name;
    return json::parse(std::ifstream(folder / "config.json"));
  };
  json expected = json::parse(source);
  expected["eos_token_id"] = 6;  // what ends a text here
  EXPECT_EQ(exported(model), expected);
  Config other = came;
  other.attention_dropout = 0.25;
  other.rope_scaling = {.type = "linear", .factor = 2};
  LanguageModel changed(other);
  tests::initialize(changed, 3);
  for (const auto& parameter : changed.parameters())
    at::Tensor(parameter.tensor).detach().copy_(parameter.tensor.detach().to(at::kBFloat16));
  expected["attention_dropout"] = 0.25;
  expected.erase("rope_parameters");
  expected["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  expected["rope_theta"] = 5e3;
  FilesFolder folder;
  export_model(folder.path(), changed, {{"config.json", source}});
  json config = json::parse(std::ifstream(folder / "config.json"));
  config["eos_token_id"] = 6;
  EXPECT_EQ(config, expected);
}

// Folders as transformers 4 and others wrote them: names, types and tensors that no model uses, an output
// head that is the embedding once more; for a Gemma also norms that are held as they are in the folder.
TEST(ExportedFolder, HasTheTensorsThatCame) {
  using safetensors::Dtype;
  for (const char* const architecture : {"llama", "gpt2", "gemma2", "gemma3_text"}) {
    SCOPED_TRACE(architecture);
    LanguageOptions options;
    options.architecture = architecture;
    options.hidden_size = 8, options.num_hidden_layers = 2, options.num_attention_heads = 2;
    const bool is_gemma = options.architecture.starts_with("gemma");
    const Config config = options.model({19, 1, 2});
    const LanguageModel model(config);
    tests::initialize(model, 3);
    for (const auto& parameter : model.parameters())  // with many bits behind those of 1
      if (parameter.shape.size() == 1) at::Tensor(parameter.tensor).detach().uniform_(1e-9, 1e-3);
    const FilesFolder folder;
    export_model(folder.path(), model);
    tests::FileTensors came;
    const size_t before = config.architecture == "gpt2" ? std::string("transformer.").size() : 0;
    for (const auto& [name, tensor] : tests::read_weights(folder.path())) came[name.substr(before)] = tensor;
    int i = 0;
    for (auto& [name, tensor] : came)
      if (const int kind = i++ % 3; kind > 0) tests::round_to(tensor, kind == 1 ? Dtype::kBF16 : Dtype::kF16);
    const std::string embedding = std::string(model.architecture().names.embedding).substr(before);
    came["lm_head.weight"] = came.at(embedding);
    const std::string unused = before > 0 ? "h.0.attn.bias" : "model.layers.0.self_attn.rotary_emb.inv_freq";
    if (!is_gemma) came[unused] = {Dtype::kU8, {3}, "abc"};
    tests::write_shards(folder.path(), came);
    LanguageModel again(read_config(hugging_face::ConfigFile(folder / "config.json")));
    import_model(folder.path(), again);
    tests::initialize(again, 4);
    const hugging_face::FolderTexts texts{{"config.json", tests::read_all(folder / "config.json")},
                                          {hugging_face::kWeightsText, kept_weights(folder.path(), again)}};
    const FilesFolder written;
    EXPECT_THAT(export_model(written.path(), again, texts),
                testing::ElementsAre(HasSubstr("in bfloat16 and float16 and float32")));
    EXPECT_EQ(tests::read_weights(written.path()), came);
    EXPECT_EQ(tests::read_all(written / "config.json"), texts.at("config.json"));

    at::Tensor(again.token_embedding()).detach().fill_(0.5);
    export_model(written.path(), again, texts);
    const tests::FileTensors learnt = tests::read_weights(written.path());
    EXPECT_NE(learnt.at(embedding), came.at(embedding));
    EXPECT_EQ(learnt.at("lm_head.weight"), learnt.at(embedding));
    EXPECT_TRUE(is_gemma || learnt.at(unused) == came.at(unused));
  }
}

TEST(ExportedFolder, IsInFloat32WhereItsFloat16DoesNotReachAValue) {
  const Config small{.vocab_size = 19,
                     .max_position_embeddings = 64,
                     .hidden_size = 8,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 2,
                     .intermediate_size = 12};
  const LanguageModel model(small);
  tests::initialize(model, 3);
  json source = config_json(small);
  source["torch_dtype"] = "float16";
  std::vector<std::string> notes;
  const auto exported = [&](const char* type) {
    FilesFolder folder;
    notes = export_model(folder.path(), model, {{"config.json", source.dump()}});
    EXPECT_EQ(safetensors::Folder::open(folder.path()).at("model.embed_tokens.weight").dtype_name(), type);
    return json::parse(std::ifstream(folder / "config.json"))["torch_dtype"].get<std::string>();
  };
  EXPECT_EQ(exported("F16"), "float16");
  at::Tensor(model.parameters()[0].tensor).detach().view(-1)[0].fill_(65505.0);
  EXPECT_EQ(exported("F16"), "float16") << "is rounded to 65504";
  at::Tensor(model.parameters()[0].tensor).detach().view(-1)[0].fill_(70000.0);
  EXPECT_EQ(exported("F32"), "float32");
  EXPECT_THAT(notes, testing::ElementsAre(testing::HasSubstr("written in float32")));
}

// A checkpoint comes from anywhere.
TEST(ExportedFolder, DamageInACheckpointIsAnError) {
  const LanguageModel model(Config{.vocab_size = 19,
                                   .max_position_embeddings = 64,
                                   .hidden_size = 8,
                                   .num_hidden_layers = 1,
                                   .num_attention_heads = 2,
                                   .intermediate_size = 12});
  tests::initialize(model, 3);
  const FilesFolder folder;
  const std::string config = config_json(model.config()).dump();
  const auto error = [&](const std::string& kept) {
    return tests::message_of<Error>([&] {
      export_model(folder.path(), model, {{"config.json", config}, {hugging_face::kWeightsText, kept}});
    });
  };
  const std::string whole = R"({"a":{"dtype":"F16","shape":[1,2],"data":[1,5]},"b":{"dtype":"BF16"}})";
  ASSERT_EQ(error(whole + "\n12345"), "(nothing was thrown)");
  for (size_t size = 0; size < whole.size() + 5; ++size)
    EXPECT_THAT(error((whole + "\n12345").substr(0, size)), HasSubstr("is damaged")) << size;
  for (const char* const other : {
           "[]",
           R"({"a": 1})",
           R"({"b": {"dtype": "I64"}})",
           R"({"a": {"dtype": "F99", "shape": []}})",
           R"({"a": {"dtype": "U8", "shape": [-1]}})",
           R"({"a": {"dtype": "U8", "shape": [1e300]}})",
           R"({"a": {"dtype": "U8", "shape": [18446744073709551615]}})",
           R"({"a": {"dtype": "F64", "shape": [4294967296, 4294967296]}})",
           R"({"a": {"dtype": "U8", "shape": [2], "data": [0, 3]}})",
           R"({"a": {"dtype": "U8", "shape": [2], "data": [-2, 0]}})",
           R"({"a": {"dtype": "U8", "shape": [2], "data": [8, 10]}})",
           R"({"a": {"dtype": "U8", "shape": [2], "data": [0]}})",
       }) {
    const std::string kept = std::string(other) + "\n12345";
    EXPECT_THAT(error(kept), HasSubstr("is damaged")) << other;
  }
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(error(deep + "\n"), HasSubstr("is damaged"));
  EXPECT_THAT(tests::message_of<Error>(
                  [&] { hugging_face::kept_of_part(deep, [](const std::string& name) { return name; }); }),
              HasSubstr("is damaged"));
}

}  // namespace
}  // namespace pipeline::language
