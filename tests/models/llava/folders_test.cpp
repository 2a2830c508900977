// Parts of Hugging Face's folders. tests/parity/vlm_parity.py compares whole ones with transformers.
#include "plugins/models/llava/folders.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <pipeline/error.hpp>

#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"
#include "tests/support/declared.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/weight_files.hpp"

namespace pipeline::llava {
namespace {

using testing::HasSubstr;
using tests::FilesFolder;
using tests::message_of;

VlmConfig tiny(int64_t tokens = 19) {
  return {.vision = {.image_size = 16,
                     .patch_size = 8,
                     .hidden_size = 8,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 2,
                     .intermediate_size = 12},
          .language = language::Config{.vocab_size = tokens,
                                       .max_position_embeddings = 64,
                                       .hidden_size = 8,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 2,
                                       .num_key_value_heads = 1,
                                       .intermediate_size = 12,
                                       .tie_word_embeddings = false}};
}

VlmConfig tiny_gpt2(int64_t tokens = 19) {
  VlmConfig config = tiny();
  config.language = {.architecture = "gpt2",
                     .vocab_size = tokens,
                     .max_position_embeddings = 64,
                     .hidden_size = 8,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 2,
                     .attention_bias = true,
                     .mlp_bias = true};
  return config;
}

// The parameters of a part that are equal in both, and those that are not.
std::pair<int, int> compared(const Vlm& a, const Vlm& b, const std::string& part) {
  std::pair<int, int> counts{0, 0};
  for (size_t i = 0; i < a.parameters().size(); ++i)
    if (a.parameters()[i].name.starts_with(part))
      ++(a.parameters()[i].tensor.equal(b.parameters()[i].tensor) ? counts.first : counts.second);
  return counts;
}

// A folder of LLaVA with random weights; in `new_names`, as transformers has named them since 4.52. `extra`:
// one tensor more.
void write_llava(const FilesFolder& folder, const Vlm& model, bool new_names, const std::string& extra = "") {
  export_llava(folder.path(), model);
  if (!new_names && extra.empty()) return;
  const FilesFolder other;
  {
    const auto files = safetensors::Folder::open(folder.path());
    safetensors::Writer writer(other / "model.safetensors");
    std::map<std::string, std::string> old_names;
    for (const std::string& name : files.names()) {
      const std::string inner = "language_model.model.", head = "language_model.lm_head.";
      const std::string plain = !new_names ? name
                                : name.starts_with(inner)
                                    ? "model.language_model." + name.substr(inner.size())
                                : name.starts_with(head) ? "lm_head." + name.substr(head.size())
                                                         : "model." + name;
      old_names[plain] = name;
      writer.declare(plain, safetensors::Dtype::kF32, files.at(name).shape);
    }
    if (!extra.empty()) {
      old_names[extra] = files.names().front();
      writer.declare(extra, safetensors::Dtype::kF32, files.at(old_names[extra]).shape);
    }
    for (const auto& info : writer.layout()) writer.write(info.name, files.at(old_names.at(info.name)).data);
    writer.finish();
  }
  std::filesystem::rename(other / "model.safetensors", folder / "model.safetensors");
}

TEST(VlmFolders, EachPartComesFromAFolderOfLlavaByOldNamesAndNew) {
  for (const bool new_names : {false, true}) {
    const FilesFolder folder;
    Vlm model(tiny());
    tests::initialize(model, 3);
    write_llava(folder, model, new_names);

    VlmConfig fewer = tiny();  // layers of the vision encoder: LLaVA leaves out some
    fewer.vision.num_hidden_layers = 1;
    Vlm seeing(fewer), reading(tiny()), whole(tiny());
    import_vision(folder.path(), seeing);
    EXPECT_EQ(import_language(folder.path(), reading), -1) << "the placeholder";
    EXPECT_EQ(import_llava(folder.path(), whole), -1);
    for (Vlm* other : {&seeing, &reading, &whole}) tests::initialize(*other, 4);
    int same = 0;
    for (const auto& parameter : seeing.parameters()) {
      if (!parameter.name.starts_with("vision.")) continue;
      for (const auto& theirs : model.parameters())
        if (theirs.name == parameter.name) {
          EXPECT_TRUE(theirs.tensor.equal(parameter.tensor)) << theirs.name;
          ++same;
        }
    }
    EXPECT_GT(same, 0);
    EXPECT_EQ(compared(model, reading, "language.").second, 0);
    EXPECT_GT(compared(model, reading, "vision.").second, 0) << "only that part";
    EXPECT_EQ(compared(model, whole, "").second, 0);
  }
}

// Names of tensors come from anywhere.
TEST(VlmFolders, ALayerWithoutANumberIsNone) {
  for (const char* number : {"x", "", "99999999999999999999", "-", "1"}) {
    const FilesFolder folder;
    Vlm model(tiny());
    tests::initialize(model, 3);
    write_llava(folder, model, false, std::string("vision_tower.vision_model.encoder.layers.") + number);
    const std::string problem = message_of<Error>([&] { import_vision(folder.path(), model); });
    EXPECT_THAT(problem, HasSubstr("unexpected (1): ")) << number;
  }
}

TEST(VlmFolders, AGpt2CannotComeFromLlava) {
  const FilesFolder folder;
  Vlm model(tiny()), gpt2(tiny_gpt2());
  tests::initialize(model);
  export_llava(folder.path(), model);
  EXPECT_THAT(message_of<Error>([&] { import_language(folder.path(), gpt2); }),
              HasSubstr("task.language.architecture = \"gpt2\", the folder has \"llama\""));
}

TEST(VlmFolders, TheLanguageModelAloneGoesThereAndBack) {
  for (const VlmConfig& config : {tiny(), tiny_gpt2()}) {
    const FilesFolder folder;
    Vlm model(config), again(config);
    tests::initialize(model, 3);
    export_language(folder.path(), model);
    EXPECT_EQ(import_language(folder.path(), again), 0);
    tests::initialize(again, 4);
    EXPECT_EQ(compared(model, again, "language.").second, 0);
    EXPECT_GT(compared(model, again, "vision.").second, 0);
  }
}

TEST(VlmFolders, TokensThatAFolderDoesNotHaveStartAsTheMean) {
  for (const auto& [config, larger] : {std::pair(tiny(), tiny(22)), {tiny_gpt2(), tiny_gpt2(22)}}) {
    const FilesFolder folder, exported;
    Vlm model(config), more(larger);
    tests::initialize(model, 3);
    export_language(folder.path(), model);
    EXPECT_EQ(import_language(folder.path(), more), 3);
    tests::initialize(more, 4);
    int tables = 0;
    for (size_t i = 0; i < more.parameters().size(); ++i) {
      const at::Tensor &ours = more.parameters()[i].tensor, &theirs = model.parameters()[i].tensor;
      if (!more.parameters()[i].name.starts_with("language.") || ours.size(0) != 22) continue;
      ++tables;
      EXPECT_TRUE(ours.narrow(0, 0, 19).equal(theirs));
      for (int64_t row = 19; row < 22; ++row)
        EXPECT_TRUE(ours[row].allclose(theirs.mean(0), 1e-5, 1e-7)) << more.parameters()[i].name;
    }
    EXPECT_EQ(tables, larger.language.tie_word_embeddings ? 1 : 2) << "the head of a Llama, too";
    // The language model's folder, exported, has the new rows.
    export_language(exported.path(), more);
    EXPECT_EQ(nlohmann::json::parse(tests::read_all(exported / "config.json"))["vocab_size"], 22);
    Vlm again(larger);
    EXPECT_EQ(import_language(exported.path(), again), 0);
  }
  const FilesFolder folder;
  Vlm model(tiny()), more(tiny(22));
  tests::initialize(model);
  export_llava(folder.path(), model);
  EXPECT_EQ(import_llava(folder.path(), more), 2) << "one of the folder's 20 is the placeholder";
}

// What transformers leaves out of a part's config is its default: real folders of LLaVA 1.5 say little.
TEST(VlmFolders, ALlamaOfFewWordsIsTransformersDefault) {
  const FilesFolder folder;
  folder.write("config.json", R"({"model_type": "llava",
    "text_config": {"max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-05, "vocab_size": 32064},
    "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "num_attention_heads": 16,
                      "model_type": "clip_vision_model", "num_hidden_layers": 24, "patch_size": 14}})");
  const VlmConfig config = read_llava_config(folder.path());
  const auto& llama = config.language;
  EXPECT_EQ(llama.hidden_size, 4096);
  EXPECT_EQ(llama.num_hidden_layers, 32);
  EXPECT_EQ(llama.key_heads(), 32);
  EXPECT_EQ(llama.intermediate_size, 11008);
  EXPECT_EQ(llama.eos_token_id, 2);
  EXPECT_EQ(config.vision.num_hidden_layers, 23);
}

// The model's own folder: names of now, three types, a layer and norms that LLaVA does not use, numbers of
// positions, rows that no token has, fields that nobody knows.
class LlavaThatCame : public testing::Test {
 protected:
  void SetUp() override {
    using safetensors::Dtype;
    Vlm model(tiny(24));
    tests::initialize(model, 3);
    write_llava(folder_, model, true);
    int i = 0;
    for (auto& [name, tensor] : tests::read_weights(folder_.path())) {
      if (const int kind = i++ % 3; kind > 0) tests::round_to(tensor, kind == 1 ? Dtype::kBF16 : Dtype::kF16);
      came_[name] = tensor;
      const std::string last = "vision_tower.vision_model.encoder.layers.1.";
      if (const size_t at = name.find(last); at != name.npos) {  // one more, with other values
        std::string behind = name;
        behind[at + last.size() - 2] = '2';
        came_[behind] = tensor;
        came_[behind].bytes[0] ^= 1;
      }
    }
    came_["model.vision_tower.vision_model.post_layernorm.weight"].bytes[0] ^= 1;
    came_["model.vision_tower.vision_model.embeddings.position_ids"] = {
        Dtype::kI64, {1, 5}, std::string(40, 7)};
    came_["model.language_model.layers.0.self_attn.rotary_emb.inv_freq"] = {Dtype::kF32, {1}, "1234"};
    tests::write_shards(folder_.path(), came_);
    auto config = nlohmann::ordered_json::parse(tests::read_all(folder_ / "config.json"));
    config["vision_feature_layer"] = -2;
    config["vision_config"]["num_hidden_layers"] = 3;
    config["vision_config"]["projection_dim"] = 768;
    config["vision_config"]["_known_to_none"] = {{"a", nullptr}, {"b", {1, 2}}};
    config["text_config"]["_name_or_path"] = "someone/model";
    config["text_config"]["use_cache"] = nullptr;
    config["text_config"]["dtype"] = "bfloat16";
    config["ignore_index"] = -100;
    config.erase("image_seq_length");
    folder_.write("config.json", config.dump());
    import_llava(folder_.path(), model_);
    tests::initialize(model_, 4);
    texts_ = {{"config.json", tests::read_all(folder_ / "config.json")},
              {hugging_face::kWeightsText, kept_llava(folder_.path(), model_)}};
  }
  nlohmann::ordered_json config_of(const FilesFolder& folder) const {
    return nlohmann::ordered_json::parse(tests::read_all(folder / "config.json"));
  }

  FilesFolder folder_, written_;
  tests::FileTensors came_;
  Vlm model_{tiny(25)};  // with the placeholder's row
  hugging_face::FolderTexts texts_;
};

TEST_F(LlavaThatCame, GoesAsItCame) {
  export_llava(written_.path(), model_, 24, false, texts_);
  EXPECT_EQ(tests::read_weights(written_.path()), came_);
  EXPECT_EQ(config_of(written_).dump(2), config_of(folder_).dump(2)) << "in their order, too";
}

// The model's placeholder is one of the rows that no token has.
TEST_F(LlavaThatCame, KeepsItsPlaceholderWithoutATokenOfThatName) {
  VlmConfig config = tiny(25);
  config.language.written_tokens = 23;
  Vlm model(config);
  import_llava(folder_.path(), model);
  tests::initialize(model, 4);
  export_llava(written_.path(), model, {}, false, texts_);
  EXPECT_EQ(tests::read_weights(written_.path()), came_);
  EXPECT_EQ(config_of(written_).dump(2), config_of(folder_).dump(2));
}

TEST_F(LlavaThatCame, WhatIsOtherwiseIsSaid) {
  Vlm more(tiny(27));
  import_llava(folder_.path(), more);
  tests::initialize(more, 4);
  export_llava(written_.path(), more, 25, false, texts_);
  nlohmann::ordered_json expected = config_of(folder_);
  expected["image_token_index"] = 25;
  expected["text_config"]["vocab_size"] = 27;
  EXPECT_EQ(config_of(written_).dump(2), expected.dump(2));
  const tests::FileTensors there = tests::read_weights(written_.path());
  for (const auto& [name, tensor] : came_)
    if (tensor.shape.empty() || tensor.shape[0] != 25) {
      EXPECT_EQ(there.at(name), tensor) << name;
    } else {
      EXPECT_EQ(there.at(name).dtype, tensor.dtype) << name;
      EXPECT_EQ(there.at(name).bytes.substr(0, tensor.bytes.size()), tensor.bytes) << name;
    }
}

// Checkpoints of before do not have the layer that is not used: the configuration has none, either.
TEST_F(LlavaThatCame, WithoutWhatIsNotUsedItIsWhole) {
  texts_.erase(hugging_face::kWeightsText);
  export_llava(written_.path(), model_, 24, false, texts_);
  EXPECT_EQ(config_of(written_)["vision_feature_layer"], -1);
  EXPECT_EQ(config_of(written_)["vision_config"]["num_hidden_layers"], 2);
  Vlm again(tiny(25));
  import_llava(written_.path(), again);
  tests::initialize(again, 5);
  EXPECT_EQ(compared(model_, again, "").second, 0);
}

TEST_F(LlavaThatCame, ItsLanguageModelAloneIsAsItIsThere) {
  const FilesFolder again;
  export_language(written_.path(), model_, texts_);
  Vlm part(tiny(25));
  import_language(folder_.path(), part);
  tests::initialize(part, 4);
  hugging_face::FolderTexts texts = language_part({{"config.json", texts_.at("config.json")}});
  texts[hugging_face::kWeightsText] = kept_language(folder_.path(), part);
  export_language(again.path(), part, texts);
  const std::string inner = "model.language_model.";
  tests::FileTensors expected;
  for (const auto& [name, tensor] : came_)
    if (name.starts_with(inner))
      expected["model." + name.substr(inner.size())] = tensor;
    else if (name == "lm_head.weight")
      expected[name] = tensor;
  for (const FilesFolder* const one : {&std::as_const(written_), &again}) {
    EXPECT_EQ(tests::read_weights(one->path()), expected);
    EXPECT_EQ(config_of(*one).dump(2), config_of(folder_)["text_config"].dump(2));
  }
}

}  // namespace
}  // namespace pipeline::llava
