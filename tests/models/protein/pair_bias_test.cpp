#include "plugins/models/protein/pair_bias.hpp"
#include "plugins/data/residues/residue.hpp"

#include <gtest/gtest.h>

#include "tests/models/protein/proteins.hpp"
#include "tests/models/transformer/gradients.hpp"

namespace pipeline::protein::testing {
namespace {

using transformer::testing::expect_same_function;
using transformer::testing::expect_threads_do_not_matter;
using transformer::testing::values;

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
