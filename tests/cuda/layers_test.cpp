#include <numeric>

#include <pipeline/torch/recompute.hpp>

#include "tests/cuda/place.hpp"
#include "transformer/blocks.hpp"
#include "transformer/coded.hpp"
#include "transformer/gated_unit.hpp"
#include "transformer/gemm.hpp"
#include "transformer/heads.hpp"
#include "transformer/layer.hpp"

namespace pipeline::tests {
namespace {

using namespace transformer;

class Layers : public InPlace {};
PIPELINE_IN_ALL_PLACES(Layers);

constexpr int64_t kRows = 37, kWidth = 24, kInner = 50;
constexpr double kEps = 1e-5;

TEST_P(Layers, NormLinear) {
  expect_same({values({kRows, kWidth}, 1), values({kWidth}, 2), values({kWidth}, 3), values({kWidth, 70}, 4),
               values({70}, 5)},
              [](const Tensors& t, at::ScalarType compute) {
                return norm_linear(t[0], {t[1], t[2], kEps}, {t[3], t[4]}, compute);
              });
}

// The sums over rows are of many terms, which do not cancel: the rows are alike.
TEST_P(Layers, NormLinearOfManyRows) {
  expect_same({values({1, kWidth}, 1).repeat({5000, 1}), values({kWidth}, 2), values({kWidth}, 3),
               values({kWidth, 70}, 4), values({70}, 5)},
              [](const Tensors& t, at::ScalarType compute) {
                return norm_linear(t[0], {t[1], t[2], kEps}, {t[3], t[4]}, compute);
              });
}

TEST_P(Layers, LinearResidual) {
  for (const Dropout& dropout : {Dropout{}, same_dropout({0.2, 5})}) {
    expect_same({values({kRows, kInner}, 1), values({kInner, kWidth}, 2), values({kWidth}, 3),
                 values({kRows, kWidth}, 4)},
                [&](const Tensors& t, at::ScalarType) {
                  return linear_residual(t[0], {t[1], t[2]}, t[3], dropout);
                });
  }
}

Tensors mlp_inputs(int64_t inner = kInner) {
  return {values({kRows, kWidth}, 1), values({kWidth}, 2),
          values({kWidth}, 3),        values({kWidth, inner}, 4) * 0.3,
          values({inner}, 5),         values({inner, kWidth}, 6) * 0.3,
          values({kWidth}, 7)};
}
constexpr Dropout kDropout{0.2, 5};
at::Tensor mlp(const Tensors& t, at::ScalarType compute, Gelu form, const Dropout& dropout) {
  return norm_mlp_residual(t[0], {t[1], t[2], kEps}, {t[3], t[4]}, {t[5], t[6]}, dropout, compute, form);
}

TEST_P(Layers, Mlp) {
  for (const int64_t inner : {kInner, 2 * kWidth}) {  // no whole vectors in a row, and whole ones
    for (const Gelu form : {Gelu::kTanh, Gelu::kExact, Gelu::kQuick}) {
      expect_same(mlp_inputs(inner), [&](const Tensors& t, at::ScalarType compute) {
        return mlp(t, compute, form, same_dropout(kDropout));
      });
    }
  }
}

// Llama's and Gemma's MLPs: RMS norm, no biases.
TEST_P(Layers, GatedUnits) {
  for (const int64_t inner : {kInner, 2 * kWidth}) {
    for (const Gate gate : {Gate::kSilu, Gate::kGelu, Gate::kExactGelu}) {
      expect_same({values({kRows, kWidth}, 1), values({kWidth}, 2), values({kWidth, 2 * inner}, 4) * 0.3,
                   values({inner, kWidth}, 6) * 0.3},
                  [&](const Tensors& t, at::ScalarType compute) {
                    return norm_gated_residual(t[0], {t[1], {}, kEps}, {t[2], {}}, {t[3], {}}, compute, gate);
                  });
      expect_same({values({kRows, 2 * inner}, 1)},
                  [&](const Tensors& t, at::ScalarType) { return gated_unit(t[0], gate); });
    }
  }
}

// Heads of 64 channels, of 96, whose lanes are no power of two, and of 20, which no kernel takes. Queries,
// keys and values, and keys and values alone.
TEST_P(Layers, HeadsThatAreNormedAndTurned) {
  for (const int64_t width : {64, 96, 20}) {
    for (const int64_t queries : {4, 0}) {
      const at::Tensor frequencies = rotary_frequencies(width);
      const auto ready = [&](const Tensors& t, bool normed) {
        const Rotation rotation = transformer::rotation(
            at::arange(kRows, at::TensorOptions(t[0].device()).dtype(at::kLong)) * 3, frequencies);
        const auto norm = [&](size_t i) { return normed ? Norm{t[i], {}, kEps} : Norm{}; };
        return ready_heads(t[0].clone(), {0, queries * width, norm(1)}, {queries * width, 2 * width, norm(2)},
                           rotation);
      };
      const at::Tensor x = values({kRows, (queries + 4) * width}, 1);
      for (const bool normed : {true, false})
        expect_same({x, values({width}, 2), values({width}, 3)}, [&](const Tensors& t, at::ScalarType) {
          // Whatever is not used has the gradient zero.
          return ready(t, normed) + (t[1].sum() + t[2].sum()) * 0;
        });
    }
  }
}

// Whole numbers up to 127 in each row, times a power of two: the values have no more digits than any type.
at::Tensor exactly_in_8_bits(int64_t in, int64_t out) {
  at::Tensor weight = (values({in, out}, 4) * 80).round();
  weight[0].fill_(127);
  weight.div_(1024);
  const Parameter parameter{.name = "weight", .shape = weight.sizes().vec()};
  const auto coding = coding_of_parts(in, {out});
  const at::Tensor bytes =
      at::empty({static_cast<int64_t>(coding->bytes(parameter, PL_FORM_INT8))}, at::kByte);
  coding->encode(parameter, PL_FORM_INT8, weight, static_cast<std::byte*>(bytes.mutable_data_ptr()));
  return coding->bound(parameter, bytes);
}

TEST_P(Layers, FrozenWeightsInFewBits) {
  constexpr int64_t kWide = 128, kOut = 70;
  const at::Tensor weight = exactly_in_8_bits(kWide, kOut);
  expect_same({values({kRows, kWide}, 1), values({kWide}, 2), values({kOut}, 3)},
              [&](const Tensors& t, at::ScalarType compute) {
                return norm_linear(t[0], {t[1], {}, kEps}, {weight.to(t[0].device()), t[2]}, compute);
              });
}

TEST_P(Layers, RecomputedHaveTheSameBits) {
  Tensors kept, again;
  for (const at::Tensor& input : mlp_inputs()) {
    kept.push_back(here(input.to(type())).detach().clone().requires_grad_(true));
    again.push_back(kept.back().detach().clone().requires_grad_(true));
  }
  const at::Tensor y = mlp(kept, type(), Gelu::kTanh, kDropout);
  const LayerFn layer = [&](const Tensors& in) {
    Tensors t = again;
    t[0] = in[0];
    return Tensors{mlp(t, type(), Gelu::kTanh, kDropout)};
  };
  const at::Tensor z = recompute(layer, {again[0]}, Tensors(again.begin() + 1, again.end()))[0];
  EXPECT_TRUE(y.equal(z));
  y.sum().backward();
  z.sum().backward();
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].grad().equal(again[i].grad())) << i;
}

// A stack whose last layer is computed at chosen rows: with gaps between them, one alone, and so many that
// all are computed; sequences have none or are empty.
TEST_P(Layers, AtChosenRows) {
  constexpr int64_t kCount = 113;
  const auto matrix = [](int64_t in, int64_t out, double phase) { return values({in, out}, phase) * 0.1; };
  const auto norm = [](double phase) { return 1 + 0.1 * values({kWidth}, phase); };
  Tensors inputs{values({kCount, kWidth}, 1)};
  for (const double phase : {0.1, 0.2}) {
    for (const at::Tensor& t :
         {norm(phase), values({kWidth}, phase + 1), matrix(kWidth, 3 * kWidth, phase + 2),
          values({3 * kWidth}, phase + 3), matrix(kWidth, kWidth, phase + 4), values({kWidth}, phase + 5),
          norm(phase + 6), values({kWidth}, phase + 7), matrix(kWidth, kInner, phase + 8),
          values({kInner}, phase + 9), matrix(kInner, kWidth, phase + 10), values({kWidth}, phase + 11)})
      inputs.push_back(t);
  }
  LayerPass shared{.layout = {.heads = 3}};  // eight elements to a head: flash attention's
  for (const int64_t length : {30, 1, 0, 77, 5}) shared.layout.queries.append(length);
  shared.layout.keys = shared.layout.queries;
  std::vector<int64_t> most(kCount - 9);
  std::iota(most.begin(), most.end(), 4);
  ParameterRegistry units;  // the parameters are in `inputs`
  for (const uint32_t unit : {0, 1, 2})
    units.add({.name = std::to_string(unit), .shape = {1}, .unit = unit}, constant(0));
  for (const bool causal : {true, false}) {
    shared.layout.causal = causal;
    for (const std::vector<int64_t>& wanted : {std::vector<int64_t>{3, 9, 29, 31, 90}, {30}, most}) {
      const auto stack = [&](const Tensors& t, at::ScalarType compute) {
        std::vector<Layer> layers;
        for (size_t i = 1; i < t.size(); i += 12)
          layers.push_back({.attention_norm = {t[i], t[i + 1], kEps},
                            .qkv = {t[i + 2], t[i + 3]},
                            .projection = {t[i + 4], t[i + 5]},
                            .mlp_norm = {t[i + 6], t[i + 7], kEps},
                            .up = {t[i + 8], t[i + 9]},
                            .down = {t[i + 10], t[i + 11]}});
        return run_layers(layers, t[0], shared, {.compute = compute}, units, wanted);
      };
      expect_same(inputs, stack, 4);
    }
  }
}

// In bfloat16 and float16 on a device the mask is another one: it depends on the key alone, drops the share
// it should, scales what is left, and is the same for the gradient.
TEST_P(Layers, DropoutOnItsOwn) {
  const at::Tensor ones = here(at::ones({300, 129}, type()));
  const auto out = [&](uint64_t key) { return apply_dropout(ones, {0.25, key}); };
  EXPECT_TRUE(out(7).equal(out(7)));
  EXPECT_FALSE(out(7).equal(out(8)));
  const at::Tensor y = out(7).to(at::kDouble).cpu();
  const double share = y.eq(0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(share, 0.25, 0.01);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.75, 4e-3);  // half a step of bfloat16

  const at::Tensor x = here(values({300, 129}, 1).to(type()));
  const at::Tensor h = x.detach().requires_grad_(true), weight = here(at::eye(129, type())),
                   zero = here(at::zeros({300, 129}, type()));
  linear_residual(h, {weight, here(at::zeros({129}, type()))}, zero, {0.25, 7}).sum().backward();
  EXPECT_TRUE(h.grad().eq(0).equal(out(7).eq(0))) << "what is dropped has no gradient, and nothing else";
}

TEST_P(Layers, DropoutMasksInFloatAreTheCpus) {
  const Dropout dropout{0.3, 12345};
  const auto mask = [&](at::DeviceType device) {
    return dropout_mask(dropout, 3, 70, 129, at::TensorOptions(device).dtype(at::kFloat)).cpu();
  };
  EXPECT_TRUE(mask(GetParam().device).equal(mask(at::kCPU)));
}

// All forms of the product, into a result of its type and, for sums of many products, into float32.
TEST_P(Layers, Products) {
  const at::Tensor a = values({45, 70}, 1).to(type()), b = values({70, 30}, 2).to(type());
  const at::Tensor bias = values({30}, 3).to(type()), addend = values({45, 30}, 4).to(type());
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      const at::Tensor left = here(a_transposed ? a.t().contiguous() : a);
      const at::Tensor right = here(b_transposed ? b.t().contiguous() : b);
      const GemmOptions plain{.a_transposed = a_transposed, .b_transposed = b_transposed};
      expect_close(gemm(left, right, plain), exact, tolerance(), "product");
      GemmOptions scaled = plain;
      scaled.factor = 0.25;
      expect_close(gemm(left, right, scaled), exact * 0.25, tolerance(), "product times a factor");
      at::Tensor twice = gemm(left, right, scaled);
      scaled.accumulate = true;
      gemm_out(twice, left, right, scaled);
      expect_close(twice, exact * 0.5, tolerance(), "two of them");

      GemmOptions more = plain;
      more.bias = here(bias);
      more.addend = here(addend);
      more.gelu = here(at::empty_like(addend));
      const at::Tensor sum = exact + bias.to(at::kDouble) + addend.to(at::kDouble);
      expect_close(gemm(left, right, more), sum, tolerance(), "with bias and addend");
      expect_close(more.gelu, at::gelu(sum, "tanh"), 2 * tolerance(), "with GELU");

      GemmOptions accumulate = plain;
      accumulate.accumulate = true;
      at::Tensor total = here(at::ones({45, 30}, at::kFloat));
      gemm_out(total, left, right, accumulate);
      expect_close(total, exact + 1, tolerance(), "added in float32");
    }
  }
}

TEST_P(Layers, ProductsWithNothingInThem) {
  const at::Tensor none = here(at::zeros({0, 70}, type())), b = here(values({70, 30}, 2).to(type()));
  EXPECT_EQ(gemm(none, b).sizes(), at::IntArrayRef({0, 30}));
  EXPECT_TRUE(gemm(none, here(at::zeros({0, 30}, type())), {.a_transposed = true}).eq(0).all().item<bool>());
}

}  // namespace
}  // namespace pipeline::tests
