#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/encoder/esm2/reference.hpp"
#include "tests/models/protein/low_precision.hpp"
#include "tests/support/unit_recorder.hpp"
#include "tiny_esmc.hpp"

namespace pipeline::encoder::testing {
namespace {

using ::testing::HasSubstr;

double distance(const at::Tensor& actual, const at::Tensor& expected) {  // relative
  const at::Tensor difference = actual.to(at::kDouble) - expected.to(at::kDouble);
  return difference.norm().item<double>() / (expected.to(at::kDouble).norm().item<double>() + 1e-12);
}

// ESM C as transformers writes it: branches are divided, the residual stream is as it is.
class Reference {
 public:
  Reference(const Weights& weights, const EsmcConfig& config) : weights_(weights), config_(config) {}

  // What each layer gets, and the last one gives, normalised: (L, C) each.
  std::vector<at::Tensor> states(const std::vector<int64_t>& tokens,
                                 const std::vector<int64_t>& positions) const {
    at::Tensor x = w("esmc.embed_tokens.weight").index_select(0, at::tensor(tokens, at::kLong));
    std::vector<at::Tensor> states{x};
    const double divisor = std::sqrt(static_cast<double>(config_.num_layers) / 36);
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      const std::string name = "esmc.layers." + std::to_string(i) + ".";
      const auto qkv =
          at::mm(norm(name + "input_layernorm", x), w(name + "self_attn.qkv_proj.weight")).chunk(3, 1);
      const at::Tensor h =
          exact_attention(norm(name + "self_attn.q_norm", qkv[0]), norm(name + "self_attn.k_norm", qkv[1]),
                          qkv[2], config_.num_heads, positions);
      x = x + at::mm(h, w(name + "self_attn.o_proj.weight")) / divisor;
      const auto gated =
          at::mm(norm(name + "post_attention_layernorm", x), w(name + "mlp.gate_up_proj.weight")).chunk(2, 1);
      x = x + at::mm(at::silu(gated[0]) * gated[1], w(name + "mlp.down_proj.weight")) / divisor;
      states.push_back(x);
    }
    states.back() = norm("esmc.norm", x);
    return states;
  }

  at::Tensor logits(const std::vector<int64_t>& tokens, const std::vector<int64_t>& positions) const {
    const at::Tensor dense = at::mm(states(tokens, positions).back(), w("lm_head.dense.weight"));
    const at::Tensor h = norm("lm_head.layer_norm", at::gelu(dense + w("lm_head.dense.bias")));
    return at::mm(h, w("lm_head.decoder.weight").t()) + w("lm_head.decoder.bias");
  }

  Exact exact(const protein::PackedProteins& batch) const {
    return exact_of(batch, [&](const std::vector<int64_t>& tokens, const std::vector<int64_t>& positions) {
      return logits(tokens, positions);
    });
  }

 private:
  const at::Tensor& w(const std::string& name) const { return weights_.at(name); }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    const auto bias = weights_.find(name + ".bias");
    return at::layer_norm(x, {config_.hidden_dim}, w(name + ".weight"),
                          bias == weights_.end() ? at::Tensor() : bias->second, 1e-5);
  }

  const Weights& weights_;
  const EsmcConfig& config_;
};

class EsmcTest : public ::testing::Test {
 protected:
  explicit EsmcTest(const EsmcConfig& config = tiny_esmc()) : model_(config) { fill_with_numbers(model_); }

  std::vector<at::Tensor> gradients(const protein::PackedProteins& batch, const ForwardPass& options = {}) {
    zero_gradients(model_);
    model_.loss(batch, options).scaled.backward();
    std::vector<at::Tensor> result;
    for (const auto& [name, parameter] : named(model_)) result.push_back(parameter.grad());
    return result;
  }

  Esmc model_;
};

TEST_F(EsmcTest, LossLogitsAndGradientsAreThoseOfAnExactReference) {
  // Many targets, and few: the last layer goes over all rows, or over these.
  for (const std::vector<Sample>& samples : std::vector<std::vector<Sample>>{
           tiny_samples(), {{"MKT#YIAKQRQISFVKSHFSRQLEERLGLIEVQ"}, {"ACDEFG", "HI"}}, {{"#"}}}) {
    const protein::PackedProteins batch = batch_of(samples);
    const Weights weights = exact_weights(model_);
    const Exact exact = Reference(weights, model_.config()).exact(batch);
    EXPECT_EQ(model_.logits(batch, {}).size(1), 64);
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

TEST_F(EsmcTest, EmbeddingsOfEveryLayerAreThoseOfTheReference) {
  const protein::PackedProteins batch = batch_of({{"LAGV"}});
  const Weights weights = exact_weights(model_);
  const std::vector<at::Tensor> states =
      Reference(weights, model_.config()).states({0, 4, 5, 6, 7, 2}, {0, 1, 2, 3, 4, 5});
  for (int64_t layer = 0; layer <= model_.layers(); ++layer) {
    const protein::Embeddings ours = model_.embeddings(batch, {}, layer);
    const at::Tensor& exact = states[static_cast<size_t>(layer)];
    EXPECT_LT(distance(ours.residues, exact.narrow(0, 1, 4)), 2e-6) << layer;
    EXPECT_LT(distance(ours.chains, exact.narrow(0, 0, 1)), 2e-6) << layer;
  }
}

TEST_F(EsmcTest, ASampleDoesNotSeeTheOthersAndThreadsDoNotMatter) {
  const at::Tensor one = model_.logits(batch_of({{"AC#DE"}}), {}),
                   two = model_.logits(batch_of({{"FGH#"}}), {});
  EXPECT_TRUE(model_.logits(batch_of({{"AC#DE", "FGH#"}}), {}).equal(at::cat({one, two})));
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> alone = gradients(batch);
  at::set_num_threads(3);
  const std::vector<at::Tensor> three = gradients(batch);
  at::set_num_threads(before);
  for (size_t i = 0; i < alone.size(); ++i)
    EXPECT_TRUE(three[i].equal(alone[i])) << model_.parameters()[i].name;
}

TEST_F(EsmcTest, BatchesWithoutTargetsOrResiduesHaveGradientsOfZero) {
  for (const std::vector<Sample>& samples : std::vector<std::vector<Sample>>{{{"ACDEF"}}, {}}) {
    for (const at::Tensor& gradient : gradients(batch_of(samples))) {
      ASSERT_TRUE(gradient.defined());
      EXPECT_TRUE(gradient.eq(0).all().item<bool>());
    }
    EXPECT_EQ(model_.outputs(batch_of(samples), {}).log_probabilities.size(0), 0);
  }
}

// As the core does where it trains in bf16: parameters and products.
TEST_F(EsmcTest, LowPrecisionComputesTheSameFunction) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const at::Tensor exact = model_.logits(batch, {});
  const std::vector<at::Tensor> whole = gradients(batch);
  protein::testing::to_bf16(model_);
  EXPECT_LT(distance(model_.logits(batch, {.compute = at::kBFloat16}), exact), 3e-2);
  const std::vector<at::Tensor> half = gradients(batch, {.compute = at::kBFloat16});
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_LT(distance(half[i], whole[i]), 0.1) << model_.parameters()[i].name;
}

class EsmcDropoutTest : public EsmcTest {
 protected:
  EsmcDropoutTest()
      : EsmcTest([] {
          EsmcConfig config = tiny_esmc();
          config.attention_dropout = 0.2;
          return config;
        }()) {}
};

// What a layer computes again in the backward pass is the same to the bit.
TEST_F(EsmcDropoutTest, LayersAreUnitsAndMayBeComputedAgain) {
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
    pass.units = nullptr;
    pass.dropout_seed = 6;
    EXPECT_FALSE(gradients(batch, pass)[0].equal(kept[0]));
  }
}

TEST_F(EsmcTest, AUnitUsesItsOwnParametersAlone) {
  const protein::PackedProteins batch = batch_of(tiny_samples());
  const at::Tensor expected = model_.logits(batch, {});
  const at::Tensor embedding = model_.embeddings(batch, {}, 1).residues;
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
  EXPECT_TRUE(model_.embeddings(batch, {.units = &recorder.units()}, 1).residues.equal(embedding));
}

TEST_F(EsmcTest, DecayIsForMatricesOnly) {
  for (size_t i = 0; i < model_.parameters().size(); ++i) {
    const Parameter& info = model_.parameters()[i];
    EXPECT_EQ(info.decay, info.shape.size() == 2 && info.name != "esmc.embed_tokens.weight") << info.name;
    EXPECT_EQ(info.unit == 0, info.name.find(".layers.") == std::string::npos) << info.name;
  }
}

TEST_F(EsmcTest, OperationsAreThoseOfTheProducts) {
  const double width = 24, inner = 50, rows = 20,
               layer = 2 * rows * (4 * width * width + 3 * width * inner) + 4 * rows * rows * width;
  EXPECT_DOUBLE_EQ(model_.flops(batch_of({{"acdefghiklmnpqrstv"}})),
                   3 * (3 * layer + 2 * 18 * (width * width + 64 * width)));
}

TEST(EsmcSizeTest, IsThatOfThePublishedModels) {
  EsmcConfig large;
  large.num_layers = 36;
  large.hidden_dim = 1152;
  large.num_heads = 18;
  // Parameters of EsmcForMaskedLM in transformers. Nothing is touched, so they take no memory.
  for (const auto& [config, expected] : {std::pair(EsmcConfig(), 332'997'184), {large, 575'036'992}}) {
    const Esmc model(config);
    int64_t count = 0;
    for (const auto& [name, parameter] : named(model)) count += parameter.numel();
    EXPECT_EQ(count, expected);
  }
}

TEST(EsmcConfigTest, WhatCannotBeIsNamed) {
  const auto error = [](auto&& change) -> std::string {
    EsmcConfig config = tiny_esmc();
    change(config);
    try {
      Esmc model(config);
    } catch (const Error& problem) {
      return problem.what();
    }
    return "";
  };
  EXPECT_EQ(error([](EsmcConfig&) {}), "");
  EXPECT_THAT(error([](EsmcConfig& c) { c.num_heads = 7; }),
              HasSubstr("num_heads = 7: must divide hidden_dim (24)"));
  EXPECT_THAT(error([](EsmcConfig& c) { c.num_heads = 8; }), HasSubstr("heads of 3 channels"));
  EXPECT_THAT(error([](EsmcConfig& c) { c.num_layers = 0; }), HasSubstr("num_layers = 0"));
  EXPECT_THAT(error([](EsmcConfig& c) { c.intermediate = -1; }), HasSubstr("intermediate = -1"));
  EXPECT_THAT(error([](EsmcConfig& c) { c.attention_dropout = 1; }), HasSubstr("attention_dropout"));
}

}  // namespace
}  // namespace pipeline::encoder::testing
