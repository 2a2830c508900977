#include "transformer/blocks.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <pipeline/torch/recompute.hpp>

#include "gradients.hpp"
#include "transformer/embedding.hpp"
#include "transformer/heads.hpp"
#include "transformer/layer.hpp"
#include "transformer/layer_norm.hpp"

namespace pipeline::transformer::testing {
namespace {

constexpr int64_t kNormRows = 37, kNormWidth = 24, kNormInner = 50;
constexpr double kNormEps = 1e-5;

Tensors mlp_inputs() {
  return {values({kNormRows, kNormWidth}, 1),
          values({kNormWidth}, 2),
          values({kNormWidth}, 3),
          values({kNormWidth, kNormInner}, 4) * 0.3,
          values({kNormInner}, 5),
          values({kNormInner, kNormWidth}, 6) * 0.3,
          values({kNormWidth}, 7)};
}

at::Tensor mlp(const Tensors& t, const Dropout& dropout, at::ScalarType compute = at::kFloat) {
  return norm_mlp_residual(t[0], {t[1], t[2], kNormEps}, {t[3], t[4]}, {t[5], t[6]}, dropout, compute);
}

at::Tensor exact_mlp(const Tensors& t, const Dropout& dropout) {
  const at::Tensor h =
      at::gelu(at::addmm(t[4], at::layer_norm(t[0], {kNormWidth}, t[1], t[2], kNormEps), t[3]), "tanh");
  at::Tensor y = at::addmm(t[6], h, t[5]);
  if (dropout.active()) y = y * dropout_mask(dropout, 0, y.size(0), y.size(1), y.options());
  return t[0] + y;
}

TEST(BlocksTest, MlpIsWhatAutogradMakesOfIt) {
  for (const Dropout& dropout : {Dropout{}, Dropout{0.2, 5}}) {
    expect_same_function(
        mlp_inputs(), [&](const Tensors& t) { return mlp(t, dropout); },
        [&](const Tensors& t) { return exact_mlp(t, dropout); });
  }
}

TEST(BlocksTest, NormLinearIsWhatAutogradMakesOfIt) {
  expect_same_function(
      {values({kNormRows, kNormWidth}, 1), values({kNormWidth}, 2), values({kNormWidth}, 3),
       values({kNormWidth, 70}, 4), values({70}, 5)},
      [](const Tensors& t) {
        return norm_linear(t[0], {t[1], t[2], kNormEps}, {t[3], t[4]}, at::kFloat);
      },
      [](const Tensors& t) {
        return at::addmm(t[4], at::layer_norm(t[0], {kNormWidth}, t[1], t[2], kNormEps), t[3]);
      });
}

at::Tensor exact_rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * (x.square().mean(1, true) + kNormEps).rsqrt() * weight;
}

// Llama's norm and product: without biases and without a mean.
TEST(BlocksTest, RmsNormLinearIsWhatAutogradMakesOfIt) {
  const Tensors inputs = {values({kNormRows, kNormWidth}, 1), values({kNormWidth}, 2),
                          values({kNormWidth, 70}, 4)};
  const auto ours = [](const Tensors& t) {
    return norm_linear(t[0], {t[1], {}, kNormEps}, {t[2], {}}, at::kFloat);
  };
  expect_same_function(inputs, ours,
                       [](const Tensors& t) { return at::mm(exact_rms_norm(t[0], t[1]), t[2]); });
  expect_threads_do_not_matter(inputs, ours);
}

Tensors swiglu_inputs(int64_t rows = kNormRows) {
  return {values({rows, kNormWidth}, 1), values({kNormWidth}, 2),
          values({kNormWidth, 2 * kNormInner}, 4) * 0.3, values({kNormInner, kNormWidth}, 6) * 0.3};
}
at::Tensor swiglu_block(const Tensors& t, at::ScalarType compute = at::kFloat) {
  return norm_gated_residual(t[0], {t[1], {}, kNormEps}, {t[2], {}}, {t[3], {}}, compute);
}
at::Tensor exact_swiglu(const Tensors& t) {
  const at::Tensor gated = at::mm(exact_rms_norm(t[0], t[1]), t[2]);
  return t[0] +
         at::mm(at::silu(gated.narrow(1, 0, kNormInner)) * gated.narrow(1, kNormInner, kNormInner), t[3]);
}

TEST(BlocksTest, SwigluIsWhatAutogradMakesOfIt) {
  expect_same_function(
      swiglu_inputs(), [](const Tensors& t) { return swiglu_block(t); }, exact_swiglu);
  expect_close(swiglu_block(swiglu_inputs(), at::kBFloat16),
               exact_swiglu(leaves(swiglu_inputs(), at::kDouble)), 2e-2, "bf16");
  expect_threads_do_not_matter(swiglu_inputs(400), [](const Tensors& t) { return swiglu_block(t); });
}

TEST(BlocksTest, AGatedMlpDropsWhatItAdds) {
  const Tensors t = swiglu_inputs();
  Layer layer;
  layer.projection = {at::zeros({kNormWidth, kNormWidth}), {}};  // attention adds nothing
  layer.mlp_norm = {t[1], {}, kNormEps};
  layer.up = {t[2], {}}, layer.down = {t[3], {}};
  layer.gate = Gate::kSilu;
  LayerPass shared;
  shared.dropout.residual = 0.5;
  const auto out = [&](uint64_t seed) {
    ForwardPass pass;
    pass.training = true, pass.dropout_seed = seed;
    return after_attention(layer, 0, at::zeros({kNormRows, kNormWidth}), t[0], shared, pass);
  };
  EXPECT_TRUE(out(1).equal(out(1)));
  EXPECT_FALSE(out(1).equal(out(2)));
}

TEST(BlocksTest, LinearResidualIsWhatAutogradMakesOfIt) {
  for (const Dropout& dropout : {Dropout{}, Dropout{0.2, 5}}) {
    expect_same_function(
        {values({kNormRows, kNormInner}, 1), values({kNormInner, kNormWidth}, 2), values({kNormWidth}, 3),
         values({kNormRows, kNormWidth}, 4)},
        [&](const Tensors& t) {
          return linear_residual(t[0], {t[1], t[2]}, t[3], dropout);
        },
        [&](const Tensors& t) {
          at::Tensor y = at::addmm(t[2], t[0], t[1]);
          if (dropout.active()) y = y * dropout_mask(dropout, 0, y.size(0), y.size(1), y.options());
          return t[3] + y;
        });
  }
}

TEST(BlocksTest, EmbeddingAddsUpRepeatedTokens) {
  const at::Tensor tokens = at::tensor({3L, 1L, 3L, 3L, 0L}, at::kLong),
                   positions = at::tensor({0L, 1L, 2L, 0L, 1L}, at::kLong);
  for (const Dropout& dropout : {Dropout{}, Dropout{0.2, 5}}) {
    expect_same_function(
        {values({6, kNormWidth}, 1), values({4, kNormWidth}, 2)},
        [&](const Tensors& t) { return embed(tokens, positions, t[0], t[1], dropout); },
        [&](const Tensors& t) {
          const at::Tensor x = at::embedding(t[0], tokens) + at::embedding(t[1], positions);
          return dropout.active() ? x * dropout_mask(dropout, 0, x.size(0), x.size(1), x.options()) : x;
        });
  }
}

TEST(BlocksTest, TokensOutOfRangeAreNamed) {
  const at::Tensor table = values({6, kNormWidth}, 1), zero = at::zeros({2}, at::kLong);
  EXPECT_THROW(embed(at::tensor({0L, 6L}, at::kLong), zero, table, table, {}), c10::IndexError);
  EXPECT_THROW(embed(at::tensor({-1L, 0L}, at::kLong), zero, table, table, {}), c10::IndexError);
}

TEST(BlocksTest, FrozenParametersAndInputsGetNoGradient) {
  Tensors t = leaves(mlp_inputs());
  t[0].requires_grad_(false);
  t[3].requires_grad_(false);
  mlp(t, {}).sum().backward();
  EXPECT_FALSE(t[0].grad().defined());
  EXPECT_FALSE(t[3].grad().defined());
  Tensors all = leaves(mlp_inputs());
  mlp(all, {}).sum().backward();
  for (const size_t i : {1, 2, 4, 5, 6}) EXPECT_TRUE(t[i].grad().equal(all[i].grad())) << i;
}

TEST(BlocksTest, LowPrecisionComputesTheSameFunction) {
  const Tensors ours = leaves(mlp_inputs()), exact = leaves(mlp_inputs(), at::kDouble);
  const at::Tensor y = mlp(ours, {0.2, 5}, at::kBFloat16), expected = exact_mlp(exact, {0.2, 5});
  EXPECT_EQ(y.scalar_type(), at::kFloat);  // the residual stream stays in the dtype of x
  expect_close(y, expected, 2e-2, "result");
  y.sum().backward();
  expected.sum().backward();
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].grad().scalar_type(), at::kFloat);
    expect_close(ours[i].grad(), exact[i].grad(), 3e-2, "gradient " + std::to_string(i));
  }
}

TEST(BlocksTest, ThreadsDoNotMatter) {
  Tensors inputs = mlp_inputs();
  inputs[0] = values({400, kNormWidth}, 1);
  expect_threads_do_not_matter(inputs, [](const Tensors& t) { return mlp(t, {0.1, 2}); });
}

// Recomputation as the SDK does it where train.activation_checkpointing is on.
TEST(RecomputationTest, SameBitsAsKeepingEverything) {
  for (const bool input_needs_gradient : {true, false}) {
    Tensors kept = leaves(mlp_inputs()), again = leaves(mlp_inputs());
    kept[0].requires_grad_(input_needs_gradient);
    again[0].requires_grad_(input_needs_gradient);
    const at::Tensor y = mlp(kept, {0.2, 5});
    const LayerFn layer = [&](const Tensors& in) {
      Tensors t = again;
      t[0] = in[0];
      return Tensors{mlp(t, {0.2, 5})};
    };
    const at::Tensor z = recompute(layer, {again[0]}, Tensors(again.begin() + 1, again.end()))[0];
    EXPECT_TRUE(y.equal(z));
    y.sum().backward();
    z.sum().backward();
    EXPECT_EQ(again[0].grad().defined(), input_needs_gradient);
    for (size_t i = input_needs_gradient ? 0 : 1; i < kept.size(); ++i)
      EXPECT_TRUE(kept[i].grad().equal(again[i].grad())) << i;
  }
}

// Heads of 6 channels: 3 of queries, 2 of keys, and values behind them that stay.
TEST(BlocksTest, NormsOfHeads) {
  constexpr int64_t kHead = 6;
  constexpr double kEps = 1e-6;
  const auto exact = [](const std::vector<at::Tensor>& in) {
    const auto normed = [](const at::Tensor& x, const at::Tensor& weight) {
      const at::Tensor heads = x.reshape({x.size(0), -1, kHead});
      return (heads * (heads.square().mean(-1, true) + kEps).rsqrt() * weight).flatten(1);
    };
    return at::cat({normed(in[0].narrow(1, 0, 18), in[1]), normed(in[0].narrow(1, 18, 12), in[2]),
                    in[0].narrow(1, 30, 12)},
                   1);
  };
  expect_same_function(
      {values({17, 42}, 1), values({kHead}, 2), values({kHead}, 3)},
      [](const std::vector<at::Tensor>& in) {
        return norm_heads(in[0], {0, 18, {in[1], {}, kEps}}, {18, 12, {in[2], {}, kEps}});
      },
      exact);
  expect_same_function(
      {values({17, 12}, 1), values({kHead}, 2)},  // keys and values alone
      [](const std::vector<at::Tensor>& in) {
        return norm_heads(in[0], {}, {0, 6, {in[1], {}, kEps}});
      },
      [&](const std::vector<at::Tensor>& in) {
        const at::Tensor x = in[0].narrow(1, 0, 6);
        return at::cat({x * (x.square().mean(-1, true) + kEps).rsqrt() * in[1], in[0].narrow(1, 6, 6)}, 1);
      });
}

// In ESM C all queries, or all keys, are one head, and the norm has a mean and no bias.
TEST(BlocksTest, NormOverAllHeadsTogether) {
  const auto exact = [](const at::Tensor& x, const at::Tensor& weight) {
    return at::layer_norm(x, {x.size(1)}, weight, {}, kNormEps);
  };
  expect_same_function(
      {values({17, 42}, 1), values({12}, 2), values({18}, 3)},
      [](const Tensors& in) {
        return norm_heads(in[0], {0, 12, {in[1], {}, kNormEps, true}}, {12, 18, {in[2], {}, kNormEps, true}});
      },
      [&](const Tensors& in) {
        return at::cat({exact(in[0].narrow(1, 0, 12), in[1]), exact(in[0].narrow(1, 12, 18), in[2]),
                        in[0].narrow(1, 30, 12)},
                       1);
      });
}

TEST(BlocksTest, LayerNormWithoutABias) {
  expect_same_function(
      {values({17, 20}, 1), values({20}, 2), values({20, 8}, 3)},
      [](const Tensors& in) {
        return norm_linear(in[0], {in[1], {}, kNormEps, true}, {in[2], {}}, at::kFloat);
      },
      [](const Tensors& in) { return at::mm(at::layer_norm(in[0], {20}, in[1], {}, kNormEps), in[2]); });
}

}  // namespace
}  // namespace pipeline::transformer::testing
