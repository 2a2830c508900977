#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "reference.hpp"
#include "tests/models/protein/low_precision.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/unit_recorder.hpp"
#include "tiny_model.hpp"

namespace pipeline::encoder::testing {
namespace {

using ::testing::HasSubstr;

double distance(const at::Tensor& actual, const at::Tensor& expected) {  // relative
  const at::Tensor difference = actual.to(at::kDouble) - expected.to(at::kDouble);
  return difference.norm().item<double>() / (expected.to(at::kDouble).norm().item<double>() + 1e-12);
}

// Tests of every protein encoder.
class ProteinEncoders : public ::testing::TestWithParam<const Architecture*> {
 protected:
  explicit ProteinEncoders(double dropout = 0) : model_(*GetParam(), config(dropout)) {
    fill_with_numbers(model_);
  }

  static Config config(double dropout) {
    Config tiny = tiny_config(*GetParam());
    tiny.hidden_dropout = dropout;
    tiny.attention_dropout = dropout / 2;
    return tiny;
  }
  std::vector<at::Tensor> gradients(const protein::PackedProteins& batch, const ForwardPass& options = {}) {
    zero_gradients(model_);
    model_.loss(batch, options).scaled.backward();
    std::vector<at::Tensor> result;
    for (const auto& [name, parameter] : named(model_)) result.push_back(parameter.grad());
    return result;
  }
  at::Tensor logits(const std::vector<Sample>& samples) { return model_.logits(batch_of(samples), {}); }
  bool is_esm2() const { return GetParam() == &esm2(); }

  ProteinEncoder model_;
};

std::string name_of(const ::testing::TestParamInfo<const Architecture*>& info) { return info.param->name; }
INSTANTIATE_TEST_SUITE_P(All, ProteinEncoders, ::testing::Values(&esm2(), &esmc()), name_of);

TEST_P(ProteinEncoders, LossLogitsAndGradientsAreThoseOfAnExactReference) {
  // Many targets, few, and one that is alone in its sequence: the last layer goes over all rows, or over the
  // targets'.
  const std::vector<std::vector<Sample>> batches = {tiny_samples(),
                                                    {{"MKT#YIAKQRQISFVKSHFSRQLEERLGLIEVQ"}, {"ACDEFG", "HI"}},
                                                    {{"#"}},
                                                    {{"acdefghiklmnpqrstvwy"}}};
  for (const std::vector<Sample>& samples : batches) {
    const protein::PackedProteins batch = batch_of(samples);
    const Weights weights = exact_weights(model_);
    const Exact exact = Reference(*GetParam(), weights, model_.config()).exact(batch);
    EXPECT_EQ(model_.logits(batch, {}).size(1), is_esm2() ? 33 : 64);
    EXPECT_LT(distance(model_.logits(batch, {}), exact.logits), 2e-6);
    const double loss = exact.loss.item<double>();
    EXPECT_NEAR(model_.loss(batch, {}).sum.item<double>(), loss, 2e-6 * loss);
    exact.loss.backward();
    const std::vector<at::Tensor> ours = gradients(batch);
    for (size_t i = 0; i < ours.size(); ++i) {
      const std::string& name = model_.parameters()[i].name;
      ASSERT_TRUE(ours[i].defined()) << name;
      EXPECT_LT(distance(ours[i], weights.at(name).grad()), 1e-5) << name;
    }
  }
}

TEST(Esm2, WithoutTokenDropoutAMaskIsAToken) {
  Config config = tiny_config();
  ProteinEncoder dropping(esm2(), config);
  config.token_dropout = false;
  ProteinEncoder plain(esm2(), config);
  fill_with_numbers(dropping);
  fill_with_numbers(plain);
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const Weights weights = exact_weights(plain);
  const Exact exact = Reference(esm2(), weights, config).exact(batch);
  EXPECT_LT(distance(plain.logits(batch, {}), exact.logits), 2e-6);
  EXPECT_GT(distance(dropping.logits(batch, {}), exact.logits), 1e-2);
}

TEST_P(ProteinEncoders, EmbeddingsOfEveryLayerAreThoseOfTheReference) {
  const protein::PackedProteins batch = batch_of({{"LAGV"}});
  const Weights weights = exact_weights(model_);
  const std::vector<at::Tensor> states =
      Reference(*GetParam(), weights, model_.config()).states({0, 4, 5, 6, 7, 2}, {0, 1, 2, 3, 4, 5});
  for (int64_t layer = 0; layer <= model_.layers(); ++layer) {
    const protein::Embeddings ours = model_.embeddings(batch, {}, layer);
    const at::Tensor& exact = states[static_cast<size_t>(layer)];
    EXPECT_LT(distance(ours.residues, exact.narrow(0, 1, 4)), 2e-6) << layer;
    EXPECT_LT(distance(ours.chains, exact.narrow(0, 0, 1)), 2e-6) << layer;
  }
}

TEST_P(ProteinEncoders, ASampleDoesNotSeeTheOthers) {
  std::vector<at::Tensor> alone;
  double loss = 0;
  for (const Sample& sample : tiny_samples()) {
    if (batch_of({sample}).target_rows.empty()) continue;
    alone.push_back(logits({sample}));
    loss += model_.loss(batch_of({sample}), {}).sum.item<double>();
  }
  EXPECT_LT(distance(logits(tiny_samples()), at::cat(alone)), 1e-6);
  EXPECT_NEAR(model_.loss(batch_of(tiny_samples()), {}).sum.item<double>(), loss, 1e-6 * loss);
}

TEST_P(ProteinEncoders, AChainIsASequenceOfItsOwn) {
  EXPECT_TRUE(logits({{"AC#DE", "FGH#"}}).equal(logits({{"AC#DE"}, {"FGH#"}})));
  EXPECT_FALSE(logits({{"AC#DEFGH#"}}).equal(logits({{"AC#DE", "FGH#"}})));
}

TEST_P(ProteinEncoders, PositionsAreRelativeAndGapsCount) {
  EXPECT_TRUE(logits({{"AC#DE"}}).equal(logits({{"---AC#DE"}})));
  EXPECT_GT(distance(logits({{"AC#--DE"}}), logits({{"AC#DE"}})), 1e-3);
}

TEST_P(ProteinEncoders, ProbabilitiesAreThoseOfTheAminoAcidsAlone) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const at::Tensor log_p = model_.outputs(batch, {}).log_probabilities;
  EXPECT_EQ(log_p.sizes(), at::IntArrayRef({static_cast<int64_t>(batch.target_rows.size()), 20}));
  EXPECT_LT(distance(log_p.exp().sum(1), at::ones({log_p.size(0)})), 1e-6);
  // A, C, D and Y are tokens 5, 23, 13 and 19 of both.
  const at::Tensor all = model_.logits(batch, {});
  const auto difference = [](const at::Tensor& x, int64_t a, int64_t b) {
    return x.select(1, a) - x.select(1, b);
  };
  EXPECT_LT(distance(difference(log_p, 0, 1), difference(all, 5, 23)), 1e-5);
  EXPECT_LT(distance(difference(log_p, 2, 19), difference(all, 13, 19)), 1e-5);
  EXPECT_FALSE(log_p.requires_grad());
}

TEST_P(ProteinEncoders, TheScaleIsThatOfTheGradientsAlone) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  EXPECT_EQ(model_.loss(batch, {.scale = 0.25}).sum.item<float>(), model_.loss(batch, {}).sum.item<float>());
  const std::vector<at::Tensor> whole = gradients(batch), quarter = gradients(batch, {.scale = 0.25});
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_LT(distance(quarter[i] * 4, whole[i]), 1e-6) << i;
}

TEST_P(ProteinEncoders, BatchesWithoutTargetsOrResidues) {
  for (const std::vector<Sample>& samples :
       std::vector<std::vector<Sample>>{{{"ACDEF"}}, {}, {{}, {"AC#"}, {}}}) {
    const protein::PackedProteins batch = batch_of(samples);
    const std::vector<at::Tensor> all = gradients(batch);
    EXPECT_EQ(model_.loss(batch, {}).sum.item<double>() > 0, !batch.target_rows.empty());
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(all[i].defined()) << model_.parameters()[i].name;
      if (batch.target_rows.empty()) {
        EXPECT_TRUE(all[i].eq(0).all().item<bool>()) << model_.parameters()[i].name;
      }
    }
    EXPECT_EQ(model_.outputs(batch, {}).log_probabilities.size(0), batch.targets.numel());
    EXPECT_EQ(model_.flops(batch) > 0, batch.tokens.numel() > 0);
  }
}

TEST_P(ProteinEncoders, WhatDoesNotFitTogetherIsRefused) {
  protein::PackedProteins batch = batch_of({{"AC#"}});
  batch.target_rows = {3};
  EXPECT_THROW(model_.loss(batch, {}), c10::IndexError);
  batch = batch_of({{"AC#"}});
  batch.positions = at::zeros({2}, at::kLong);
  EXPECT_THROW(model_.loss(batch, {}), c10::Error);
}

TEST_P(ProteinEncoders, ThreadsDoNotMatter) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> one = gradients(batch);
  at::set_num_threads(3);
  const std::vector<at::Tensor> three = gradients(batch);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(three[i].equal(one[i])) << model_.parameters()[i].name;
}

// Parameters and products are in bf16, as in the core's training in bf16.
TEST_P(ProteinEncoders, LowPrecisionComputesTheSameFunction) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const at::Tensor exact = model_.logits(batch, {});
  const std::vector<at::Tensor> whole = gradients(batch);
  const double loss = model_.loss(batch, {}).sum.item<double>();
  protein::testing::to_bf16(model_);
  const at::Tensor low = model_.logits(batch, {.compute = at::kBFloat16});
  EXPECT_EQ(low.scalar_type(), at::kFloat);
  EXPECT_LT(distance(low, exact), 3e-2);
  EXPECT_NEAR(model_.loss(batch, {.compute = at::kBFloat16}).sum.item<double>() / loss, 1, 0.01);
  const std::vector<at::Tensor> half = gradients(batch, {.compute = at::kBFloat16});
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(half[i].scalar_type(), at::kBFloat16);
    EXPECT_LT(distance(half[i], whole[i]), 0.1) << model_.parameters()[i].name;
  }
}

class ProteinEncodersWithDropout : public ProteinEncoders {
 protected:
  ProteinEncodersWithDropout() : ProteinEncoders(0.2) {}
};
INSTANTIATE_TEST_SUITE_P(All, ProteinEncodersWithDropout, ::testing::Values(&esm2(), &esmc()), name_of);

TEST_P(ProteinEncodersWithDropout, IsAFunctionOfTheSeedAndForTrainingAlone) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const auto loss = [&](const ForwardPass& options) { return model_.loss(batch, options).sum.item<float>(); };
  const float first = loss({.training = true, .dropout_seed = 1});
  EXPECT_EQ(loss({.training = true, .dropout_seed = 1}), first);
  EXPECT_NE(loss({.training = true, .dropout_seed = 2}), first);
  ProteinEncoder without(*GetParam(), config(0));
  fill_with_numbers(without);
  EXPECT_EQ(loss({.dropout_seed = 1}), without.loss(batch, {}).sum.item<float>());
}

// What a layer computes again in the backward pass is the same to the bit.
TEST_P(ProteinEncodersWithDropout, LayersAreUnitsAndMayBeComputedAgain) {
  for (const std::vector<Sample>& samples : {tiny_samples(), std::vector<Sample>{{"MKT#YIAKQRQISFVK"}}}) {
    const protein::PackedProteins batch = batch_of(samples);
    ForwardPass pass{.training = true, .dropout_seed = 5};
    const std::vector<at::Tensor> kept = gradients(batch, pass);
    tests::UnitRecorder recorder;
    recorder.units().set_checkpointing(true);
    pass.units = &recorder.units();
    const std::vector<at::Tensor> again = gradients(batch, pass);
    EXPECT_EQ(recorder.forward, (std::vector<uint32_t>{0, 1, 2, 3, 0}));
    EXPECT_EQ(recorder.backward, (std::vector<uint32_t>{0, 3, 2, 1, 0}));
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(again[i].equal(kept[i])) << model_.parameters()[i].name;
  }
}

TEST_P(ProteinEncoders, AUnitUsesItsOwnParametersAlone) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const at::Tensor expected = model_.logits(batch, {}), states = model_.embeddings(batch, {}, 1).residues;
  std::vector<at::Tensor> values;
  for (const auto& [name, parameter] : named(model_)) {
    values.push_back(parameter.detach().clone());
    parameter.detach().fill_(NAN);
  }
  tests::UnitRecorder recorder([&](uint32_t unit, uint32_t /*pass*/, bool entered) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (model_.parameters()[i].unit != unit) continue;
      at::Tensor value = model_.parameters()[i].tensor.detach();
      entered ? value.copy_(values[i]) : value.fill_(NAN);
    }
  });
  EXPECT_TRUE(model_.logits(batch, {.units = &recorder.units()}).equal(expected));
  EXPECT_TRUE(model_.embeddings(batch, {.units = &recorder.units()}, 1).residues.equal(states));
}

TEST_P(ProteinEncoders, DecayIsForMatricesOnly) {
  for (size_t i = 0; i < model_.parameters().size(); ++i) {
    const Parameter& info = model_.parameters()[i];
    EXPECT_EQ(info.decay, info.shape.size() == 2 && info.name != GetParam()->names.words) << info.name;
    EXPECT_EQ(info.unit > 0, info.name.starts_with(GetParam()->names.layers)) << info.name;
  }
}

// The models' parameters are not touched, so they take no memory.
TEST(ProteinEncoderSize, IsThatOfThePublishedModels) {
  Config large = esmc().defaults;
  large.num_hidden_layers = 36;
  large.hidden_size = 1152;
  large.num_attention_heads = 18;
  // esm2_t6_8M_UR50D in transformers: 7,512,474, of which 121 are those of the contact head; EsmcForMaskedLM.
  const std::vector<std::tuple<const Architecture*, Config, int64_t>> models{
      {&esm2(), esm2().defaults, 7'512'474 - 121},
      {&esmc(), esmc().defaults, 332'997'184},
      {&esmc(), large, 575'036'992}};
  for (const auto& [row, config, expected] : models) {
    const ProteinEncoder model(*row, config);
    int64_t count = 0;
    for (const auto& [name, parameter] : named(model)) count += parameter.numel();
    EXPECT_EQ(count, expected);
  }
}

TEST_P(ProteinEncoders, OperationsAreThoseOfTheProducts) {
  const double width = 24, inner = 50, rows = 20, matrices = is_esm2() ? 2 : 3, tokens = is_esm2() ? 33 : 64,
               layer = 2 * rows * (4 * width * width + matrices * width * inner) + 4 * rows * rows * width;
  const auto head = [&](double targets) { return 2 * targets * (width * width + tokens * width); };
  EXPECT_DOUBLE_EQ(model_.flops(batch_of({{"acdefghiklmnpqrstv"}})), 3 * (3 * layer + head(18)));
  // With one target the last layer computes keys and values of all rows, and the rest of one row.
  const double last =
      2 * rows * 2 * width * width + 2 * (2 * width * width + matrices * width * inner) + 4 * rows * width;
  EXPECT_DOUBLE_EQ(model_.flops(batch_of({{"#CDEFGHIKLMNPQRSTV"}})), 3 * (2 * layer + last + head(1)));
}

TEST_P(ProteinEncoders, WhatCannotBeIsNamed) {
  const auto error = [](auto&& change) -> std::string {
    Config config = tiny_config(*GetParam());
    change(config);
    return tests::message_of<Error>([&] { ProteinEncoder model(*GetParam(), config); }, "");
  };
  EXPECT_EQ(error([](Config&) {}), "");
  EXPECT_EQ(error([](Config& c) { c.num_attention_heads = 7; }),
            "num_heads = 7: must divide hidden_dim (24)");
  EXPECT_THAT(error([](Config& c) { c.num_attention_heads = 8; }), HasSubstr("heads of 3 channels"));
  EXPECT_THAT(error([](Config& c) { c.num_hidden_layers = 0; }), HasSubstr("num_layers = 0"));
  EXPECT_THAT(error([](Config& c) { c.intermediate_size = -1; }), HasSubstr("intermediate = -1"));
  EXPECT_THAT(error([](Config& c) { c.attention_dropout = 1; }), HasSubstr("attention_dropout"));
}

}  // namespace
}  // namespace pipeline::encoder::testing
