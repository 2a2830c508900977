// Hugging Face's folders of whole models. tests/parity/contrastive_parity.py compares them with transformers.
#include "plugins/models/two_towers/folder.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hugging_face/export_form.hpp"
#include "tests/support/declared.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/weight_files.hpp"

namespace pipeline::two_towers {
namespace {

using nlohmann::ordered_json;
using tests::FilesFolder;

TwoTowersConfig tiny(const std::string& kind, int64_t tokens) {
  TwoTowersConfig config{.vision = {.kind = kind,
                                    .image_size = 16,
                                    .patch_size = 8,
                                    .hidden_size = 8,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .intermediate_size = 12},
                         .text = {.vocab_size = tokens,
                                  .max_position_embeddings = 12,
                                  .hidden_size = 8,
                                  .num_hidden_layers = 2,
                                  .num_attention_heads = 2,
                                  .intermediate_size = 12}};
  config.projection_dim = 8;
  return config;
}

// Folders padded to 64 rows, in three types, with numbers of positions and fields that the model does not
// use; the end of a text as CLIP's folders of old say it.
TEST(ContrastiveFolder, GoesAsItCame) {
  using safetensors::Dtype;
  for (const char* const kind : {"clip", "siglip"}) {
    SCOPED_TRACE(kind);
    const TextEnds ends{.begin = 17, .end = 18, .padding = 18, .last = 18};
    const FilesFolder folder, written, grown;
    {
      TwoTowers model(tiny(kind, 64));
      tests::initialize(model, 3);
      export_model(folder.path(), model, ends);
    }
    tests::FileTensors came = tests::read_weights(folder.path());
    int i = 0;
    for (auto& [name, tensor] : came)
      if (const int type = i++ % 3; type > 0) tests::round_to(tensor, type == 1 ? Dtype::kBF16 : Dtype::kF16);
    came["text_model.embeddings.position_ids"] = {Dtype::kI64, {1, 2}, std::string(16, 7)};
    tests::write_shards(folder.path(), came);
    auto config = ordered_json::parse(tests::read_all(folder / "config.json"));
    config["dtype"] = nullptr;
    config["text_config"]["_note"] = {{"a", nullptr}};
    config["text_config"]["eos_token_id"] = 2;
    config["text_config"]["bos_token_id"] = nullptr;
    config["vision_config"].erase("layer_norm_eps");  // transformers' default
    config["vision_config"]["num_channels"] = nullptr;
    folder.write("config.json", config.dump());

    const auto exported = [&](const std::string& to, int64_t tokens, const TextEnds& as) {
      TwoTowersConfig ours = tiny(kind, tokens);
      ours.vision = read_config(folder.path()).vision;
      TwoTowers model(ours);
      import_model(folder.path(), model);
      tests::initialize(model, 4);
      export_model(to, model, as,
                   {{"config.json", tests::read_all(folder / "config.json")},
                    {hugging_face::kWeightsText, kept_weights(folder.path(), model)}});
      return ordered_json::parse(tests::read_all(to + "/config.json"));
    };
    EXPECT_EQ(exported(written.path(), 64, ends).dump(2), config.dump(2));
    EXPECT_EQ(tests::read_weights(written.path()), came);

    // Another token behind CLIP's end, which is then no longer the largest, and one row more.
    TextEnds more = ends;
    more.last = 64;
    ordered_json expected = config;
    expected["text_config"]["vocab_size"] = 65;
    if (std::string(kind) == "clip") {
      expected["text_config"]["bos_token_id"] = 17;
      expected["text_config"]["eos_token_id"] = 18;
    }
    EXPECT_EQ(exported(grown.path(), 65, more).dump(2), expected.dump(2));
  }
}

}  // namespace
}  // namespace pipeline::two_towers
