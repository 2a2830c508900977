#include "plugins/tasks/protein/model/pair_bias.hpp"

#include <gtest/gtest.h>

#include "tests/protein/proteins.hpp"
#include "tests/transformer/gradients.hpp"

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
          .keys = batch.sequences,
          .queries = batch.sequences,
          .query_rows = {}};
}

std::vector<at::Tensor> networks(int64_t layers, int64_t width = 24, int64_t heads = 3) {
  return {values({kPairFeatures, width}, 1) * 0.3, values({kOffsets, width}, 2) * 0.3,
          values({layers, width, heads}, 3) * 0.3};
}

// Our kernels against ATen in double precision; results of all layers, one after another.
void expect_same(const PairInputs& inputs, int64_t layers) {
  const auto joined = [&](const std::vector<at::Tensor>& in) {
    return at::cat(pair_bias(inputs, {.weight = in[0], .offsets = in[1], .out = in[2]}));
  };
  expect_same_function(networks(layers), joined, joined, 5e-6);
}

TEST(PairBias, IsWhatAtenComputes) {
  expect_same(inputs_of(pack({chain(70), chain(1, 2), chain(123, 3)})), 3);
}

TEST(PairBias, OfSomeQueriesOnly) {
  const PackedProteins batch = pack({chain(70), chain(4, 2), chain(123, 3)});
  PairInputs inputs = inputs_of(batch);
  inputs.query_rows = {0, 9, 69, 74, 75, 196};
  inputs.queries.starts = {0, 3, 3, 6};
  expect_same(inputs, 2);
}

TEST(PairBias, OfResiduesWithMissingAtomsAndOfSeveralChains) {
  std::vector<Residue> residues = chain(60);
  residues[3].flags = 0;
  residues[11].flags = Residue::kHasCa;
  for (size_t i = 40; i < 60; ++i) residues[i].position += 9;
  PackedProteins batch = pack({residues, chain(20, 1)});
  batch.chains.narrow(0, 30, 30).fill_(1);
  expect_same(inputs_of(batch), 2);
}

TEST(PairBias, ThreadsDoNotMatter) {
  const PairInputs inputs = inputs_of(pack({chain(150), chain(170, 2)}));
  expect_threads_do_not_matter(networks(2), [&](const std::vector<at::Tensor>& in) {
    return at::cat(pair_bias(inputs, {.weight = in[0], .offsets = in[1], .out = in[2]}));
  });
}

// The networks may be bf16; what they see is not: far from the origin its coordinates would be off by half an
// ångström.
TEST(PairBias, OfLowPrecisionNetworksSeesExactPlaces) {
  std::vector<Residue> residues = chain(60);
  for (Residue& residue : residues)
    for (Vec3* place : {&residue.n, &residue.ca, &residue.c}) place->x += 150;
  const PairInputs near = inputs_of(pack({chain(60)})), far = inputs_of(pack({residues}));
  std::vector<at::Tensor> network = networks(2);
  const auto bias = [&](const PairInputs& inputs, auto&& of) {
    return at::cat(of(inputs, PairNetwork{.weight = network[0], .offsets = network[1], .out = network[2]}));
  };
  const at::Tensor exact = bias(near, pair_bias);
  for (at::Tensor& tensor : network) tensor = tensor.to(at::kBFloat16);
  for (const at::Tensor& rounded : {bias(far, pair_bias), bias(far, pair_bias_by_torch)}) {
    EXPECT_EQ(rounded.scalar_type(), at::kFloat);
    EXPECT_LT((rounded - exact).norm().item<float>(), 0.02f * exact.norm().item<float>());
  }
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
    at::cat(pair_bias_by_torch(inputs, {.weight = leaves[0], .offsets = leaves[1], .out = leaves[2]}))
        .sum()
        .backward();
    return leaves[1].grad();
  };
  transformer::testing::expect_close(gradient(at::kBFloat16), gradient(at::kDouble), 1e-2, "offsets");
}

TEST(PairBias, OfNothing) {
  PairInputs inputs = inputs_of(pack({chain(5)}));
  inputs.query_rows = {};
  inputs.queries.starts = {0, 0};
  const std::vector<at::Tensor> network = networks(2);
  const std::vector<at::Tensor> biases =
      pair_bias(inputs, {.weight = network[0], .offsets = network[1], .out = network[2]});
  ASSERT_EQ(biases.size(), 2u);
  EXPECT_EQ(biases[0].numel(), 0);
}

}  // namespace
}  // namespace pipeline::protein::testing
