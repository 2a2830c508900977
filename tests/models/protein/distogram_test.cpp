
#include <gtest/gtest.h>

#include <cmath>

#include "plugins/data/residues/residue.hpp"
#include "plugins/models/protein/encoder_decoder.hpp"
#include "tests/models/protein/gradient_check.hpp"
#include "tests/models/protein/low_precision.hpp"
#include "tests/models/protein/proteins.hpp"
#include "tests/models/transformer/gradients.hpp"

namespace pipeline::protein::testing {
namespace {

using transformer::testing::values;

constexpr int64_t kWidth = 8, kInner = 4;

// A head whose logits are `bias` for every pair.
DistogramHead constant_head(const at::Tensor& bias) {
  return {.target_norm = {at::ones({kWidth}), at::zeros({kWidth})},
          .other_norm = {at::ones({kWidth}), at::zeros({kWidth})},
          .target = at::zeros({kWidth, kInner}),
          .other = at::zeros({kWidth, kInner}),
          .out = {at::zeros({kInner, kDistanceBins}), bias}};
}

// One sample on a line: residues 5 Å apart; the first is masked.
DistogramInputs line(int64_t length) {
  DistogramInputs inputs{.targets = values({1, kWidth}, 1),
                         .others = values({length, kWidth}, 2),
                         .places = at::zeros({length, 3}),
                         .placed = at::ones({length}, at::kBool),
                         .samples = {},
                         .target_samples = {},
                         .target_rows = {0},
                         .hidden = at::ones({length}, at::kBool)};
  inputs.places.select(1, 0).copy_(at::arange(length) * 5.0);
  inputs.samples.append(length);
  inputs.target_samples.append(1);
  return inputs;
}

TEST(Distogram, AHeadThatKnowsNothingLosesTheLogarithmOfTheBins) {
  EXPECT_NEAR(distogram_loss(line(9), constant_head(at::zeros({kDistanceBins}))).item<double>(),
              std::log(kDistanceBins), 1e-5);
}

TEST(Distogram, BinsAreThoseOfTheDistances) {
  // 5 Å is in bin (5 - 2) / 0.667 = 4.
  at::Tensor sure = at::zeros({kDistanceBins});
  sure[4] = 50;
  EXPECT_NEAR(distogram_loss(line(2), constant_head(sure)).item<double>(), 0, 1e-5);
  EXPECT_NEAR(distogram_loss(line(3), constant_head(sure)).item<double>(), 25, 1e-3)
      << "the residue at 10 Å is in another bin";
  at::Tensor far = at::zeros({kDistanceBins});
  far[kDistanceBins - 1] = 50;
  DistogramInputs inputs = line(2);
  inputs.places[1][0] = 400;
  EXPECT_NEAR(distogram_loss(inputs, constant_head(far)).item<double>(), 0, 1e-5);
}

TEST(Distogram, ResiduesWithoutAPlaceCountOnNeitherSide) {
  at::Tensor sure = at::zeros({kDistanceBins});
  sure[4] = 50;
  DistogramInputs inputs = line(3);
  inputs.placed[2] = false;
  EXPECT_NEAR(distogram_loss(inputs, constant_head(sure)).item<double>(), 0, 1e-5);
  inputs.placed[0] = false;
  EXPECT_EQ(distogram_loss(inputs, constant_head(sure)).item<double>(), 0);
}

TEST(Distogram, APlaceThatIsShownIsNotAskedFor) {
  DistogramInputs inputs = line(3);
  inputs.hidden[0] = false;
  EXPECT_EQ(distogram_loss(inputs, constant_head(at::zeros({kDistanceBins}))).item<double>(), 0);
}

EncoderDecoderConfig with_distances() {
  return {.hidden_dim = 32,
          .num_encoder_layers = 1,
          .num_decoder_layers = 2,
          .num_heads = 4,
          .pair_dim = 8,
          .distogram = 0.5,
          .dropout = 0};
}

TEST(Distogram, AHiddenResidueDoesNotShowWhereItIs) {
  EncoderDecoder model(with_distances());
  initialize(model);
  std::vector<residues::Residue> residues = chain(40);
  const at::Tensor before = log_probabilities(model, pack({residues}, 5, true));
  residues[10].ca.x += 3;  // 10 is masked
  EXPECT_TRUE(before.equal(log_probabilities(model, pack({residues}, 5, true))));
  residues[11].ca.x += 3;  // 11 is not
  EXPECT_FALSE(before.equal(log_probabilities(model, pack({residues}, 5, true))));
}

TEST(Distogram, GradientsAreThoseOfTheLoss) {
  EncoderDecoder model(with_distances());
  expect_gradients_of_the_loss(model, pack({chain(40)}, 5, true), {}, [](const std::string& name) {
    return name.starts_with("distogram") || name.starts_with("decoder.layers.0");
  });
}

TEST(Distogram, WorksInLowPrecision) {
  EncoderDecoder model(with_distances()), low(with_distances());
  initialize(model);
  initialize(low);
  to_bf16(low);
  const PackedProteins batch = pack({chain(40)}, 5, true);
  const at::Tensor exact = model.loss(batch, {}).sum,
                   rounded = low.loss(batch, {.compute = at::kBFloat16}).sum;
  EXPECT_EQ(rounded.scalar_type(), at::kFloat);
  EXPECT_NEAR(rounded.item<double>() / exact.item<double>(), 1, 0.01);
}

}  // namespace
}  // namespace pipeline::protein::testing
