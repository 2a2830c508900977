#include "transformer/cross_entropy_head.hpp"

#include "tests/cuda/place.hpp"
#include "transformer/embedding.hpp"

namespace pipeline::tests {
namespace {

using namespace transformer;

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
