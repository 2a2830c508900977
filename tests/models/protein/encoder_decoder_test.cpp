#include <fstream>
#include <sstream>
#include <stdexcept>

#include <gmock/gmock.h>

#include "plugins/data/residues/residue.hpp"
#include "plugins/models/protein/encoder_decoder.hpp"
#include "plugins/models/protein/pair_bias.hpp"
#include "tests/models/protein/gradient_check.hpp"
#include "tests/models/protein/low_precision.hpp"
#include "tests/models/protein/proteins.hpp"
#include "tests/models/transformer/gradients.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::protein::testing {
namespace {

using transformer::testing::expect_same_function;
using transformer::testing::expect_threads_do_not_matter;
using transformer::testing::values;

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

PairInputs inputs_of(const PackedProteins& batch) {
  return {.frames = batch.frames,
          .flags = batch.flags,
          .positions = batch.positions,
          .chains = batch.chains,
          .layout = {.queries = batch.sequences, .keys = batch.sequences, .heads = 3, .causal = false},
          .query_rows = {}};
}

std::vector<at::Tensor> networks(int64_t layers, int64_t width = 24, int64_t heads = 3) {
  return {values({kPairFeatures, width}, 1) * 0.3, values({kOffsets, width}, 2) * 0.3,
          values({layers, width, heads}, 3) * 0.3};
}

PairNetwork network_of(const std::vector<at::Tensor>& in) {
  return {.weight = in[0], .offsets = in[1], .out = in[2]};
}

// (pairs, layers * heads) of what the kernels make.
at::Tensor by_pairs(const std::vector<at::Tensor>& biases, const transformer::AttentionLayout& layout) {
  const std::vector<int64_t> starts = transformer::pair_starts(layout);
  std::vector<at::Tensor> layers;
  for (const at::Tensor& bias : biases) {
    std::vector<at::Tensor> parts;
    for (size_t s = 0; s + 1 < starts.size(); ++s) {
      const int64_t count = starts[s + 1] - starts[s];
      parts.push_back(
          bias.narrow(0, starts[s] * layout.heads, count * layout.heads).view({layout.heads, count}).t());
    }
    layers.push_back(at::cat(parts));
  }
  return at::cat(layers, 1);
}

at::Tensor values_by_torch(const PairInputs& inputs, const std::vector<at::Tensor>& network) {
  const transformer::PairIndex pairs =
      transformer::pairs_of(transformer::shared_by_layers(inputs.layout), at::kCPU);
  return pair_values(inputs, network_of(network), pairs);
}

// Our kernels against LibTorch in double precision.
void expect_same(const PairInputs& inputs, int64_t layers) {
  expect_same_function(
      networks(layers),
      [&](const std::vector<at::Tensor>& in) {
        return by_pairs(pair_bias(inputs, network_of(in)), inputs.layout);
      },
      [&](const std::vector<at::Tensor>& in) { return values_by_torch(inputs, in); }, 5e-6);
}

TEST(PairBias, IsWhatAtenComputes) {
  expect_same(inputs_of(pack({chain(70), chain(1, 2), chain(123, 3)})), 3);
}

TEST(PairBias, OfSomeQueriesOnly) {
  const PackedProteins batch = pack({chain(70), chain(4, 2), chain(123, 3)});
  PairInputs inputs = inputs_of(batch);
  inputs.query_rows = {0, 9, 69, 74, 75, 196};
  inputs.layout.queries.starts = {0, 3, 3, 6};
  expect_same(inputs, 2);
}

TEST(PairBias, OfResiduesWithMissingAtomsAndOfSeveralChains) {
  std::vector<residues::Residue> residues = chain(60);
  residues[3].flags = 0;
  residues[11].flags = residues::Residue::kHasCa;
  for (size_t i = 40; i < 60; ++i) residues[i].position += 9;
  PackedProteins batch = pack({residues, chain(20, 1)});
  batch.chains.narrow(0, 30, 30).fill_(1);
  expect_same(inputs_of(batch), 2);
}

TEST(PairBias, ThreadsDoNotMatter) {
  const PairInputs inputs = inputs_of(pack({chain(150), chain(170, 2)}));
  expect_threads_do_not_matter(networks(2), [&](const std::vector<at::Tensor>& in) {
    return at::cat(pair_bias(inputs, network_of(in)));
  });
}

// The networks may be bf16; what they see is not: far from the origin its coordinates would be off by half an
// ångström.
TEST(PairBias, OfLowPrecisionNetworksSeesExactPlaces) {
  std::vector<residues::Residue> residues = chain(60);
  for (residues::Residue& residue : residues)
    for (residues::Vec3* place : {&residue.n, &residue.ca, &residue.c}) place->x += 150;
  const PairInputs near = inputs_of(pack({chain(60)})), far = inputs_of(pack({residues}));
  std::vector<at::Tensor> network = networks(2);
  const at::Tensor exact = values_by_torch(near, network);
  for (at::Tensor& tensor : network) tensor = tensor.to(at::kBFloat16);
  const std::vector<at::Tensor> biases = pair_bias(far, network_of(network));
  EXPECT_EQ(biases[0].scalar_type(), at::kFloat);
  for (const at::Tensor& rounded : {by_pairs(biases, far.layout), values_by_torch(far, network)})
    EXPECT_LT((rounded - exact).norm().item<float>(), 0.02f * exact.norm().item<float>());
}

// Far more pairs share a class than bfloat16 can count.
TEST(PairBias, GradientsOfLowPrecisionOffsetsAddUpInFloat) {
  const PairInputs inputs = inputs_of(pack({chain(150), chain(170, 2)}));
  std::vector<at::Tensor> network = networks(1);
  network[2] = network[2].abs();
  const auto gradient = [&](at::ScalarType type) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& tensor : network)
      leaves.push_back(tensor.to(at::kBFloat16).to(type).requires_grad_(true));
    values_by_torch(inputs, leaves).sum().backward();
    return leaves[1].grad();
  };
  transformer::testing::expect_close(gradient(at::kBFloat16), gradient(at::kDouble), 1e-2, "offsets");
}

TEST(PairBias, OfNothing) {
  PairInputs inputs = inputs_of(pack({chain(5)}));
  inputs.query_rows = {};
  inputs.layout.queries.starts = {0, 0};
  const std::vector<at::Tensor> network = networks(2);
  const std::vector<at::Tensor> biases = pair_bias(inputs, network_of(network));
  ASSERT_EQ(biases.size(), 2u);
  EXPECT_EQ(biases[0].numel(), 0);
}

}  // namespace
}  // namespace pipeline::protein::testing
