#include "transformer/cuda/kernels.hpp"
#include "tests/cuda/place.hpp"
#include "transformer/coded.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/embedding.hpp"
#include "transformer/gelu.hpp"
#include "transformer/layer_norm.hpp"

namespace pipeline::tests {
namespace {

using namespace transformer;

class Kernels : public InPlace {
 protected:
  // rounded(): on the device and of this type; exact(): the same values in float64 on the CPU.
  at::Tensor rounded(const at::Tensor& x) const { return here(x.to(type())); }
  static at::Tensor exact(const at::Tensor& x) { return x.cpu().to(at::kDouble); }
  int64_t vector() const { return 16 / at::elementSize(type()); }
};
INSTANTIATE_TEST_SUITE_P(Places, Kernels, ::testing::Values(PIPELINE_ON_CUDA), name_of);

// Fewer rows than a block adds up, and several for each block.
constexpr int64_t kFewRows = 3, kManyRows = 2500;

TEST_P(Kernels, CrossEntropy) {
  constexpr double kScale = 8;
  for (const int64_t columns : {1, 2, 7, 64, 65, 1001, 50257}) {
    constexpr int64_t kPadding = 13;
    const int64_t padded = (columns + kPadding + 63) / 64 * 64;
    at::Tensor all = rounded(values({kFewRows, padded}, 1) * 3);
    at::Tensor logits = all.narrow(1, 0, columns);
    if (columns > 2) logits[1][1] = -std::numeric_limits<double>::infinity();
    const at::Tensor before = all.clone(), targets = here(at::tensor({int64_t{0}, columns - 1, columns / 2}));
    const at::Tensor log_p = at::log_softmax(exact(logits), 1);
    const at::Tensor of_target = log_p.gather(1, targets.cpu().unsqueeze(1));
    const at::Tensor wanted =
        log_p.exp().scatter_add(1, targets.cpu().unsqueeze(1), -at::ones({kFewRows, 1}, at::kDouble));

    expect_close(cuda::cross_entropy(logits, targets, false, kScale), -of_target.squeeze(1), 1e-6, "losses");
    EXPECT_TRUE(all.equal(before)) << "without gradient, logits are only read";
    expect_close(cuda::cross_entropy(logits, targets, true, kScale), -of_target.squeeze(1), 1e-6, "losses");
    expect_close(logits, wanted * kScale, tolerance(), "gradient");
    const int64_t rest = padded - columns;
    EXPECT_TRUE(all.narrow(1, columns, rest).equal(before.narrow(1, columns, rest)))
        << "what is behind a row stays";
  }
}

TEST_P(Kernels, TermsBesideTheCrossEntropy) {
  constexpr double kScale = 8;
  constexpr LossTerms kTerms{.z_loss = 0.1, .label_smoothing = 0.3};
  for (const int64_t columns : {1, 7, 64, 1001}) {
    at::Tensor all = rounded(values({kFewRows, 1024}, 1) * 3), logits = all.narrow(1, 0, columns);
    const at::Tensor targets = at::tensor({int64_t{0}, columns - 1, columns / 2});
    const at::Tensor x = exact(logits).requires_grad_();
    const auto per_row = [&](double smoothing) {
      return at::cross_entropy_loss(x, targets, {}, at::Reduction::None, -100, smoothing);
    };
    const at::Tensor whole = per_row(kTerms.label_smoothing) + at::logsumexp(x, 1).square() * kTerms.z_loss;
    whole.sum().backward();
    const at::Tensor added = here(at::empty({kFewRows}));
    const at::Tensor losses = cuda::cross_entropy(logits, here(targets), true, kScale, kTerms, added);
    expect_close(losses, per_row(0), 1e-6, "losses");
    expect_close(added, whole - per_row(0), 1e-6, "what the terms add");
    expect_close(logits, x.grad() * kScale, tolerance(), "gradient");
  }
}

TEST_P(Kernels, CrossEntropyOfWhatIsNotANumber) {
  at::Tensor logits = rounded(values({2, 64}, 1));
  logits[1][40] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor losses = cuda::cross_entropy(logits, here(at::zeros({2}, at::kLong)), true, 1).cpu();
  EXPECT_TRUE(std::isfinite(losses[0].item<float>()));
  EXPECT_TRUE(std::isnan(losses[1].item<float>()));
  EXPECT_TRUE(logits[1].isnan().all().item<bool>());
}

// The gradient is half the scale, which has more digits than the type.
TEST_P(Kernels, RoundAsLibTorchDoes) {
  for (const float scale :
       {2.0f, 2.0078125f, 2.0234375f, 2.015625f, 2.0009765625f, 2.0029296875f, 3.14159f, 1e-5f, 7e4f}) {
    at::Tensor logits = rounded(at::zeros({1, vector()}));
    logits.narrow(1, 2, vector() - 2).fill_(-std::numeric_limits<double>::infinity());
    cuda::cross_entropy(logits, here(at::zeros({1}, at::kLong)), true, scale);
    EXPECT_TRUE(logits[0][1].cpu().equal(at::scalar_tensor(scale / 2, at::kFloat).to(type()))) << scale;
  }
}

TEST_P(Kernels, ColumnSum) {
  for (const int64_t rows : {kFewRows, kManyRows}) {
    for (const int64_t columns : {vector(), 3 * vector(), 130 * vector()}) {
      const at::Tensor x = rounded(values({rows, columns}, 1) + 0.5);
      expect_close(cuda::column_sum(x), exact(x).sum(0), 1e-5, "sums");
    }
  }
}

TEST_P(Kernels, Decode) {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{64, 3}, {1088, 40}, {17024, 5}}) {
    const at::Tensor weight = values({in, out}, 1);
    const auto coding = coding_of_parts(in, {out / 2, out - out / 2});
    const Parameter parameter{.name = "weight", .shape = {in, out}};
    for (const uint32_t form : {PL_FORM_INT8, PL_FORM_NF4}) {
      const at::Tensor bytes = at::empty({static_cast<int64_t>(coding->bytes(parameter, form))}, at::kByte);
      coding->encode(parameter, form, weight, static_cast<std::byte*>(bytes.mutable_data_ptr()));
      const at::Tensor coded = coding->bound(parameter, bytes);
      expect_close(decoded(here(coded), type()), decoded(coded, at::kDouble), tolerance(), "values");
      EXPECT_EQ(inputs(here(coded)), in);
    }
  }
}

TEST_P(Kernels, GeluBackward) {
  for (const int64_t rows : {kFewRows, kManyRows}) {
    for (const int64_t columns : {vector(), 3 * vector(), 130 * vector()}) {
      if (rows == kManyRows && columns > 3 * vector())
        continue;  // on the emulated device this would take long
      for (const Gelu form : {Gelu::kTanh, Gelu::kExact, Gelu::kQuick}) {
        const at::Tensor x = rounded(values({rows, columns}, 1) * 3);
        at::Tensor d = rounded(values({rows, columns}, 2) + 1), y = at::empty_like(x);
        const at::Tensor leaf = exact(x).requires_grad_(true), wanted = gelu(leaf, form);
        wanted.backward(exact(d));
        const at::Tensor sums = cuda::gelu_backward(x, d, y, form);
        expect_close(y, wanted.detach(), tolerance(), "value");
        expect_close(d, leaf.grad(), tolerance(), "gradient");
        expect_close(sums, leaf.grad().sum(0), 1e-5, "sums of the gradient");
      }
    }
  }
}

TEST_P(Kernels, LayerNormBackward) {
  for (const int64_t rows : {kFewRows, kManyRows}) {
    for (const int64_t columns : {vector(), 3 * vector(), 96 * vector()}) {
      if (rows == kManyRows && columns > 3 * vector()) continue;
      for (const bool rms : {false, true}) {
        const at::Tensor x = rounded(values({rows, columns}, 1) + 0.5),
                         dy = rounded(values({rows, columns}, 2));
        const at::Tensor weight = rounded(values({columns}, 3)),
                         residual = rounded(values({rows, columns}, 4));
        const at::Tensor leaf = exact(x).requires_grad_(true), scale = exact(weight).requires_grad_(true);
        const at::Tensor mean = rms ? at::zeros({1}, at::kDouble) : leaf.mean(1, true);
        const at::Tensor rstd = (leaf - mean).square().mean(1, true).add(1e-5).rsqrt();
        ((leaf - mean) * rstd * scale).backward(exact(dy));

        const auto saved = [&](const at::Tensor& t) { return here(t.detach().to(at::kFloat)); };
        const at::Tensor mean_or_none = rms ? here(at::empty({0})) : saved(mean);
        const auto backward = [&](const at::Tensor& around, const at::Tensor& dx) {
          const auto [dweight, dbias] =
              cuda::layer_norm_backward(dy, x, weight, mean_or_none, saved(rstd), around, dx, true);
          expect_close(dweight, scale.grad(), 1e-5, "gradient of the weight");
          expect_close(dbias, exact(dy).sum(0), 1e-5, "gradient of the bias");
        };
        const at::Tensor dx = at::empty_like(x), with_residual = at::empty_like(x);
        backward({}, {});
        backward({}, dx);
        backward(residual, with_residual);
        expect_close(dx, leaf.grad(), tolerance(), "gradient");
        expect_close(with_residual, leaf.grad() + exact(residual), tolerance(),
                     "gradient with the residual's");
      }
    }
  }
}

TEST_P(Kernels, AreWhatLayersUse) {
  const at::Tensor x = rounded(values({kFewRows, 8 * vector()}, 1)),
                   weight = rounded(values({8 * vector()}, 2));
  const LayerNormed normed = layer_norm(x, weight, weight, 1e-5);
  const auto gradients = [&](bool need_parameters) {
    return layer_norm_backward(x, x, weight, weight, normed.mean, normed.rstd, {}, true, need_parameters);
  };
  EXPECT_EQ(gradients(true).weight.scalar_type(), at::kFloat);  // LibTorch's has the type of x
  EXPECT_FALSE(gradients(false).weight.defined());
  EXPECT_TRUE(gelu_again_and_backward(x, x.clone(), Gelu::kTanh).dx_sum.defined());
  const at::Tensor odd = rounded(values({kFewRows, vector() + 1}, 1));
  EXPECT_FALSE(gelu_again_and_backward(odd, odd.clone(), Gelu::kTanh).dx_sum.defined());
  EXPECT_TRUE(cuda::has_gated_kernels_for(x));
  EXPECT_FALSE(cuda::has_gated_kernels_for(odd));
  for (const int64_t width : {64, 96, 128}) {
    const at::Tensor heads = rounded(values({kFewRows, 3 * width}, 1)), norm = rounded(values({width}, 2));
    EXPECT_TRUE(cuda::has_head_kernels_for(
        heads, {.width = width, .queries = 1, .turned = 2, .query_weight = norm, .key_weight = norm}));
  }
}

class Head : public InPlace {};
PIPELINE_IN_ALL_PLACES(Head);
class Embedding : public InPlace {};
PIPELINE_IN_ALL_PLACES(Embedding);

constexpr int64_t kMany = 5000;  // terms: in bfloat16 a sum stands still at some 256

// x, norm weight and bias, head, its bias
Tensors inputs(int64_t rows, int64_t width, int64_t vocabulary) {
  return {values({rows, width}, 1), values({width}, 2), values({width}, 3),
          values({vocabulary, width}, 4) * 0.1, values({vocabulary}, 5)};
}

// GPT-2's columns, an odd number of them, in one chunk and in many.
TEST_P(Head, OfAnOddVocabulary) {
  for (const int64_t chunk : {0, 33}) {
    expect_same(inputs(100, 24, 50257), [&](const Tensors& t, at::ScalarType compute) {
      const at::Tensor targets = (at::arange(100, at::kLong) * 1301 % 50257).to(t[0].device());
      return cross_entropy_head(
                 t[0], targets, {t[1], t[2], 1e-5}, t[3],
                 {.scale = 0.25, .chunk = chunk, .compute = compute, .softcap = chunk == 0 ? 0 : 2.0}, t[4])
          .scaled;
    });
  }
}

TEST_P(Head, OfManyRowsWithOneTarget) {
  expect_same(inputs(kMany, 16, 7), [&](const Tensors& t, at::ScalarType compute) {
    const at::Tensor targets = at::full({kMany}, 3, at::TensorOptions(t[0].device()).dtype(at::kLong));
    return cross_entropy_head(t[0], targets, {t[1], t[2], 1e-5}, t[3], {.chunk = 64, .compute = compute},
                              t[4])
        .scaled;
  });
}

TEST_P(Head, WithTermsBesideTheCrossEntropy) {
  for (const int64_t chunk : {0, 33}) {
    expect_same(inputs(100, 24, 1001), [&](const Tensors& t, at::ScalarType compute) {
      const at::Tensor targets = (at::arange(100, at::kLong) * 1301 % 1001).to(t[0].device());
      return cross_entropy_head(t[0], targets, {t[1], t[2], 1e-5}, t[3],
                                {.scale = 0.25,
                                 .chunk = chunk,
                                 .compute = compute,
                                 .terms = {.z_loss = 0.1, .label_smoothing = 0.3}},
                                t[4])
          .scaled;
    });
  }
}

TEST_P(Head, OfNoRowsAtAll) {
  const Tensors t = inputs(0, 16, 7);
  const auto typed = [&](size_t i) { return here(t[i].to(type())); };
  const LossSum loss = cross_entropy_head(typed(0), here(at::zeros({0}, at::kLong)),
                                          {typed(1), typed(2), 1e-5}, typed(3), {.compute = type()});
  EXPECT_EQ(loss.sum.item<float>(), 0);
}

TEST_P(Head, ItsLogits) {
  const Tensors t = inputs(65, 24, 1001);
  const auto logits = [&](at::ScalarType compute, const auto& moved) {
    return head_logits(moved(t[0]), {moved(t[1]), moved(t[2]), 1e-5}, moved(t[3]), compute, moved(t[4]));
  };
  const auto rounded = [&](const at::Tensor& x) { return x.to(type()); };
  expect_close(logits(type(), [&](const at::Tensor& x) { return here(rounded(x)); }),
               logits(at::kDouble, [&](const at::Tensor& x) { return rounded(x).to(at::kDouble); }),
               tolerance(), "logits");
}

TEST_P(Embedding, OfOneTokenManyTimes) {
  for (const Dropout& dropout : {Dropout{}, same_dropout({0.2, 5})}) {
    expect_same({values({7, 16}, 1), values({2, 16}, 2)}, [&](const Tensors& t, at::ScalarType) {
      const auto numbers = at::TensorOptions(t[0].device()).dtype(at::kLong);
      return embed(at::full({kMany}, 3, numbers), at::arange(kMany, numbers) % 2, t[0], t[1], dropout);
    });
  }
}

TEST_P(Embedding, LookedUpManyTimes) {
  expect_same({values({7, 16}, 1)}, [&](const Tensors& t, at::ScalarType) {
    return look_up(t[0], at::full({kMany}, 3, at::TensorOptions(t[0].device()).dtype(at::kLong)));
  });
}

}  // namespace
}  // namespace pipeline::tests
