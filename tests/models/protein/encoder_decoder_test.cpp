#include "plugins/models/protein/encoder_decoder.hpp"
#include "plugins/data/residues/residue.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/models/protein/gradient_check.hpp"
#include "tests/models/protein/low_precision.hpp"
#include "tests/models/protein/proteins.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::protein::testing {
namespace {

EncoderDecoderConfig small() {
  return {.hidden_dim = 32,
          .num_encoder_layers = 2,
          .num_decoder_layers = 2,
          .num_heads = 4,
          .pair_dim = 16,
          .dropout = 0};
}

struct SmallModel : EncoderDecoder {
  explicit SmallModel(double dropout = 0, uint64_t seed = 1) : EncoderDecoder(with(dropout)) {
    initialize(*this, seed);
  }
  static EncoderDecoderConfig with(double dropout) {
    EncoderDecoderConfig config = small();
    config.dropout = dropout;
    return config;
  }
};

TEST(EncoderDecoder, RotationAndTranslationDoNotChangeTheLogits) {
  EncoderDecoder model{{}};  // the default size
  initialize(model);
  const std::vector<residues::Residue> residues = chain(150);
  const at::Tensor before = log_probabilities(model, pack({residues})),
                   after = log_probabilities(model, pack({moved(residues)}));
  EXPECT_LT((before - after).abs().max().item<float>(), 1e-4f);
  std::vector<residues::Residue> other = residues;
  other[70].ca.x += 2;
  EXPECT_GT((before - log_probabilities(model, pack({other}))).abs().max().item<float>(), 1e-3f)
      << "the structure has no influence";
}

TEST(EncoderDecoder, ASampleIsTheSameAloneAndInABatch) {
  SmallModel model;
  const auto a = chain(40), b = chain(7, 1), c = chain(90, 2);
  const at::Tensor together = log_probabilities(model, pack({a, b, c}));
  const at::Tensor alone = at::cat({log_probabilities(model, pack({a})), log_probabilities(model, pack({b})),
                                    log_probabilities(model, pack({c}))});
  EXPECT_LT((together - alone).abs().max().item<float>(), 1e-5f);
}

TEST(EncoderDecoder, AMaskedResidueDoesNotSeeItself) {
  SmallModel model;
  std::vector<residues::Residue> residues = chain(30);
  const at::Tensor before = log_probabilities(model, pack({residues}));
  residues[5].amino_acid =
      static_cast<uint8_t>((residues[5].amino_acid + 3) % residues::kAminoAcidCount);  // 5 is masked
  EXPECT_TRUE(before.equal(log_probabilities(model, pack({residues}))));
  residues[6].amino_acid =
      static_cast<uint8_t>((residues[6].amino_acid + 3) % residues::kAminoAcidCount);  // 6 is not
  EXPECT_FALSE(before.equal(log_probabilities(model, pack({residues}))));
}

TEST(EncoderDecoder, TheLossIsThatOfTheProbabilities) {
  SmallModel model;
  const PackedProteins batch = pack({chain(40), chain(9, 1)});
  const at::Tensor picked = log_probabilities(model, batch).gather(1, batch.targets.unsqueeze(1));
  EXPECT_NEAR(model.loss(batch, {}).sum.item<double>(), -picked.sum().item<double>(), 1e-4);
}

TEST(EncoderDecoder, GradientsAreThoseOfTheLoss) {
  SmallModel model(0.1);
  expect_gradients_of_the_loss(model, pack({chain(40), chain(9, 1)}), {.training = true, .dropout_seed = 3},
                               [](const std::string&) { return true; });
}

TEST(EncoderDecoder, WithoutTargetsTheLossIsZeroAndSoAreTheGradients) {
  SmallModel model;
  PackedProteins batch = pack({chain(12)});
  batch.tokens = at::arange(12, at::kLong);
  batch.index();
  batch.target_rows = {};
  batch.targets = at::empty({0}, at::kLong);
  const LossSum loss = model.loss(batch, {.training = true});
  EXPECT_EQ(loss.sum.item<double>(), 0);
  loss.scaled.backward();
  for (const auto& [name, parameter] : tests::named(model)) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_EQ(parameter.grad().abs().max().item<float>(), 0) << name;
  }
}

TEST(EncoderDecoder, ASampleWhoseResiduesAreAllMasked) {
  SmallModel model;
  const at::Tensor log_p = log_probabilities(model, pack({chain(6), chain(30, 1)}, 1));
  EXPECT_EQ(log_p.size(0), 36);
  EXPECT_TRUE(log_p.isfinite().all().item<bool>());
  model.loss(pack({chain(6)}, 1), {.training = true}).scaled.backward();
}

TEST(EncoderDecoder, WhatIsExportedIsImported) {
  const tests::TemporaryFolder folder;
  SmallModel model, other(0, 2);
  const PackedProteins batch = pack({chain(40)});
  const at::Tensor expected = log_probabilities(model, batch);
  ASSERT_FALSE(expected.equal(log_probabilities(other, batch)));
  model.export_folder(folder.path());
  other.import_folder(folder.path());
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < other.parameters().size(); ++i) {
    at::Tensor value = other.parameters()[i].tensor;
    other.parameters().initialize(i, 0, value);
  }
  EXPECT_TRUE(expected.equal(log_probabilities(other, batch)));
}

TEST(EncoderDecoder, AFolderOfAnotherModelIsRefusedWithAllThatDiffers) {
  const tests::TemporaryFolder folder;
  SmallModel model;
  model.export_folder(folder.path());
  EncoderDecoderConfig config = small();
  config.num_heads = 2;
  config.pair_dim = 8;
  EncoderDecoder other(config);
  try {
    other.import_folder(folder.path());
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("task.num_heads = 2, the folder has 4"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("task.pair_dim = 8, the folder has 16"));
  }
}

TEST(EncoderDecoder, AFolderWhoseNumbersMeanSomethingElseIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"ACDEFGHIKLMNPQRSTVWY\"", "\"YWVTSRQPNMLKIHGFEDCA\""},
      {"\"pair_dim\": 16,", ""},
      {"1e-05", "1e-06"}};
  const char* const errors[] = {"amino_acids", "task.pair_dim = 16, the folder has none",
                                "task.layer_norm_epsilon = 1e-05, the folder has 1e-06"};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const tests::TemporaryFolder folder;
    SmallModel model;
    model.export_folder(folder.path());
    std::stringstream read;
    read << std::ifstream(folder.path() / "config.json").rdbuf();
    std::string text = read.str();
    const size_t at = text.find(cases[i].first);
    ASSERT_NE(at, std::string::npos) << cases[i].first << " in " << text;
    std::ofstream(folder.path() / "config.json")
        << text.replace(at, std::string(cases[i].first).size(), cases[i].second);
    try {
      model.import_folder(folder.path());
      ADD_FAILURE() << "no error: " << errors[i];
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(errors[i]));
    }
  }
}

// Parameters and products are in bf16, as in the core's training in bf16.
TEST(EncoderDecoder, LowPrecisionComesClose) {
  SmallModel model, low;
  to_bf16(low);
  const PackedProteins batch = pack({chain(60), chain(9, 1)});
  const ForwardPass options{.training = true, .compute = at::kBFloat16};
  EXPECT_LT((log_probabilities(model, batch) - log_probabilities(low, batch, at::kBFloat16))
                .abs()
                .max()
                .item<float>(),
            0.05f);
  const LossSum exact = model.loss(batch, {.training = true}), rounded = low.loss(batch, options);
  EXPECT_NEAR(rounded.sum.item<double>() / exact.sum.item<double>(), 1, 0.01);
  exact.scaled.backward();
  rounded.scaled.backward();
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const std::string& name = model.parameters()[i].name;
    const at::Tensor expected = model.parameters()[i].tensor.grad(), got = low.parameters()[i].tensor.grad();
    ASSERT_TRUE(got.defined()) << name;
    EXPECT_EQ(got.scalar_type(), at::kBFloat16) << name;
    EXPECT_LT((got.to(at::kFloat) - expected).norm().item<float>(), 0.1f * expected.norm().item<float>())
        << name;
  }
}

}  // namespace
}  // namespace pipeline::protein::testing
