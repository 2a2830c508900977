// The losses of CLIP and SigLIP in blocks of rows equal those that autograd sees whole.
#include "plugins/models/two_towers/two_towers.hpp"

// Hugging Face's folders of whole models. tests/parity/contrastive_parity.py compares them with transformers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hugging_face/export_form.hpp"
#include "plugins/models/two_towers/folder.hpp"
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

// The losses of CLIP and SigLIP in blocks of rows equal those that autograd sees whole.

at::Tensor some_rows(int64_t count, int64_t width, double scale, bool has_bias) {
  at::manual_seed(7);
  const auto unit = [&] {
    const at::Tensor x = at::randn({count, width});
    return x / x.norm(2, 1, true);
  };
  return at::cat({unit() * scale, has_bias ? at::full({count, 1}, -3.0) : at::zeros({count, 1}), unit(),
                  at::ones({count, 1})},
                 1);
}

// Sums and gradients of all rows in pieces of `piece`.
RowLoss in_parts(PairLoss::Kind kind, const at::Tensor& rows, int64_t piece) {
  PairLoss loss(kind);
  loss.begin(rows);
  at::Tensor sum = at::zeros({});
  std::vector<at::Tensor> gradients;
  for (int64_t first = 0; first < rows.size(0); first += piece) {
    const RowLoss part = loss.part(rows, first, std::min(piece, rows.size(0) - first));
    sum = sum + part.sum;
    gradients.push_back(part.gradient);
  }
  return {sum, at::cat(gradients)};
}

RowLoss by_autograd(PairLoss::Kind kind, const at::Tensor& rows) {
  const at::Tensor leaf = rows.to(at::kDouble).requires_grad_();
  const at::Tensor sum = PairLoss(kind).all(leaf).sum();
  sum.backward();
  at::Tensor gradient = leaf.grad().clone();
  gradient.narrow(1, gradient.size(1) - 1, 1).zero_();  // whether there is a pair is not learnt
  return {sum.detach(), gradient};
}

void expect_equal(const RowLoss& seen, const RowLoss& expected, const char* what) {
  EXPECT_NEAR(seen.sum.item<double>() / expected.sum.item<double>(), 1, 1e-5) << what;
  const at::Tensor difference = seen.gradient.to(at::kDouble) - expected.gradient;
  EXPECT_LT(difference.norm().item<double>() / expected.gradient.norm().item<double>(), 1e-5) << what;
}

TEST(PairLoss, IsWhatAutogradMakesOfAllPairs) {
  for (const auto kind : {PairLoss::Kind::kSoftmax, PairLoss::Kind::kSigmoid}) {
    const char* what = kind == PairLoss::Kind::kSoftmax ? "softmax" : "sigmoid";
    const at::Tensor rows = some_rows(37, 8, 12, kind == PairLoss::Kind::kSigmoid);
    for (const int64_t piece : {37, 16, 5, 1})
      expect_equal(in_parts(kind, rows, piece), by_autograd(kind, rows), what);
  }
}

TEST(PairLoss, IsThatOfTheWholePairsAlone) {
  for (const auto kind : {PairLoss::Kind::kSoftmax, PairLoss::Kind::kSigmoid}) {
    const at::Tensor rows = some_rows(12, 8, 60, kind == PairLoss::Kind::kSigmoid);
    at::Tensor with_broken = rows.clone();
    for (const int64_t broken : {0, 7}) with_broken[broken][rows.size(1) - 1] = 0;
    const at::Tensor kept = at::tensor({1, 2, 3, 4, 5, 6, 8, 9, 10, 11});
    const RowLoss whole = in_parts(kind, rows.index_select(0, kept), 4),
                  some = in_parts(kind, with_broken, 5);
    EXPECT_NEAR(some.sum.item<double>() / whole.sum.item<double>(), 1, 1e-6);
    EXPECT_TRUE(some.gradient.isfinite().all().item<bool>());
    EXPECT_EQ(some.gradient[0].abs().sum().item<float>(), 0);
    EXPECT_LT((some.gradient.index_select(0, kept) - whole.gradient).norm().item<double>(),
              1e-5 * whole.gradient.norm().item<double>());
    EXPECT_NEAR(PairLoss(kind).all(with_broken).sum().item<double>() / whole.sum.item<double>(), 1, 1e-6);
  }
}

TEST(PairLoss, OfAnUntrainedModelIsThatOfAGuess) {
  at::Tensor rows = some_rows(32, 8, 1, false);
  rows.narrow(1, 0, 8).zero_();
  EXPECT_NEAR(PairLoss(PairLoss::Kind::kSoftmax).all(rows).mean().item<double>(), std::log(32.0), 1e-6);
  EXPECT_NEAR(PairLoss(PairLoss::Kind::kSigmoid).all(rows).mean().item<double>(), 32 * std::log(2.0), 1e-5);
}

// More rows than a block has.
TEST(PairLoss, GoesByBlocks) {
  const at::Tensor rows = some_rows(2500, 8, 5, false);
  const RowLoss all = in_parts(PairLoss::Kind::kSoftmax, rows, 2500);
  expect_equal(all, by_autograd(PairLoss::Kind::kSoftmax, rows), "blocks");
}

}  // namespace
}  // namespace pipeline::two_towers
