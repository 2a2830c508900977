// What the blocks keep for the backward pass where weights are frozen.
#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "gradients.hpp"
#include "transformer/attention.hpp"
#include "transformer/blocks.hpp"
#include "transformer/coded.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/embedding.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::transformer::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

// Bytes of tensors that this thread allocates and has not freed.
class Allocated : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override { bytes += size; }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t bytes = 0;
};

// The result and how many bytes stay while it is there, those of its own storage aside.
std::pair<at::Tensor, int64_t> kept_bytes(const std::function<at::Tensor()>& f) {
  const auto allocated = std::make_shared<Allocated>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
  const at::Tensor y = f();
  return {y, allocated->bytes - static_cast<int64_t>(y.storage().nbytes())};
}

constexpr int64_t kFrozenRows = 301, kFrozenWidth = 48, kFrozenHeads = 6, kFrozenKeyHeads = 2,
                  kFrozenHead = 8, kFrozenInner = 100, kFrozenKeys = kFrozenKeyHeads * kFrozenHead;

// Shapes of the parameters of a layer, Llama's or GPT-2's, and what it does.
Tensors layer_parameters(bool gated) {
  Tensors all = {values({kFrozenWidth}, 1) + 2,
                 values({kFrozenWidth, kFrozenWidth + 2 * kFrozenKeys}, 2) * 0.2,
                 values({kFrozenWidth, kFrozenWidth}, 3) * 0.2,
                 values({kFrozenWidth}, 4) + 2,
                 values({kFrozenWidth, gated ? 2 * kFrozenInner : kFrozenInner}, 5) * 0.2,
                 values({kFrozenInner, kFrozenWidth}, 6) * 0.2};
  if (gated) return all;
  for (const int64_t size :
       {kFrozenWidth, kFrozenWidth + 2 * kFrozenKeys, kFrozenWidth, kFrozenWidth, kFrozenInner, kFrozenWidth})
    all.push_back(values({size}, 7));
  return all;
}
void freeze(Tensors& parameters) {
  for (at::Tensor& t : parameters) t.requires_grad_(false);
}

class FrozenTest : public ::testing::TestWithParam<bool> {
 protected:
  at::Tensor run_layer_of(const at::Tensor& x, const Tensors& t) const {
    const bool gated = GetParam();
    AttentionLayout layout{.heads = kFrozenHeads, .key_heads = kFrozenKeyHeads};
    layout.queries.starts = {0, 100, 301};
    layout.keys = layout.queries;
    const auto bias = [&](size_t i) { return gated ? at::Tensor() : t[6 + i]; };
    const at::Tensor qkv = rotate_(norm_linear(x, {t[0], bias(0)}, {t[1], bias(1)}, at::kFloat),
                                   kFrozenWidth + kFrozenKeys, by_);
    const at::Tensor middle = linear_residual(ragged_self_attention(qkv, layout), {t[2], bias(2)}, x, {});
    if (gated) return norm_gated_residual(middle, {t[3], {}}, {t[4], {}}, {t[5], {}}, at::kFloat);
    return norm_mlp_residual(middle, {t[3], bias(3)}, {t[4], bias(4)}, {t[5], bias(5)}, {}, at::kFloat);
  }

 private:
  const Rotation by_ = rotation(at::arange(kFrozenRows, at::kLong), rotary_frequencies(kFrozenHead));
};
INSTANTIATE_TEST_SUITE_P(Layers, FrozenTest, ::testing::Bool(),
                         [](const auto& is) { return is.param ? "Llama" : "Gpt2"; });

TEST_P(FrozenTest, NothingIsKeptWhereNothingIsTrained) {
  const Tensors parameters = layer_parameters(GetParam());
  const at::Tensor x = values({kFrozenRows, kFrozenWidth}, 9);
  const auto [y, bytes] = kept_bytes([&] { return run_layer_of(x, parameters); });
  EXPECT_EQ(bytes, 0);
  EXPECT_FALSE(y.requires_grad());
}

// Without the weights' gradients, attention's output is not needed for its projection, but for itself; the
// gradient of x has the bits that it has when all is trained.
TEST_P(FrozenTest, OnlyWhatTheGradientOfTheInputNeedsIsKept) {
  const bool gated = GetParam();
  Tensors trained = leaves(layer_parameters(gated)), frozen = leaves(layer_parameters(gated));
  freeze(frozen);
  const Tensors x = leaves({values({kFrozenRows, kFrozenWidth}, 9), values({kFrozenRows, kFrozenWidth}, 9)});
  const auto [y, all] = kept_bytes([&] { return run_layer_of(x[0], trained); });
  const auto [z, some] = kept_bytes([&] { return run_layer_of(x[1], frozen); });
  EXPECT_TRUE(y.equal(z));
  // qkv, attention's output and log-sums, the middle, the activation's input; and a norm's statistics.
  const int64_t row = kFrozenWidth + 2 * kFrozenKeys + kFrozenWidth + kFrozenHeads + kFrozenWidth +
                      (gated ? 2 : 1) * kFrozenInner + (gated ? 2 : 4);
  EXPECT_LE(some, all);
  EXPECT_LE(some, kFrozenRows * row * 4 + 4096);
  const at::Tensor weights = values(y.sizes(), 0.3);
  (y * weights).sum().backward();
  (z * weights).sum().backward();
  EXPECT_TRUE(x[0].grad().equal(x[1].grad()));
  for (const at::Tensor& t : frozen) EXPECT_FALSE(t.grad().defined());
}

// A matrix that is kept in bfloat16 is not widened, in either pass.
TEST_P(FrozenTest, InBfloat16HaveTheBitsOfTheSameWeightsInFloat32) {
  Tensors narrow = layer_parameters(GetParam()), wide = narrow;
  for (size_t i = 0; i < narrow.size(); ++i) {
    if (narrow[i].dim() < 2) continue;
    narrow[i] = narrow[i].to(at::kBFloat16);
    wide[i] = narrow[i].to(at::kFloat);
  }
  const Tensors x = leaves({values({kFrozenRows, kFrozenWidth}, 9), values({kFrozenRows, kFrozenWidth}, 9)});
  const auto [y, of_wide] = kept_bytes([&] { return run_layer_of(x[0], wide); });
  const auto [z, of_narrow] = kept_bytes([&] { return run_layer_of(x[1], narrow); });
  EXPECT_TRUE(y.equal(z));
  EXPECT_EQ(of_narrow, of_wide);
  y.sum().backward();
  z.sum().backward();
  EXPECT_TRUE(x[0].grad().equal(x[1].grad()));
}

// Matrices in 8 and 4 bits; in bfloat16, too, where a part of them is widened at a time.
TEST(FrozenBlocksTest, InFewBitsHaveTheValuesOfTheSameWeightsInFloat32) {
  constexpr int64_t kIn = 128, kInner = 192;
  const auto coded = [](const at::Tensor& weight, uint32_t form) {
    const Parameter parameter{.name = "weight", .shape = weight.sizes().vec()};
    const auto coding = coding_of_parts(weight.size(0), {weight.size(1)});
    const at::Tensor bytes = at::empty({static_cast<int64_t>(coding->bytes(parameter, form))}, at::kByte);
    coding->encode(parameter, form, weight, static_cast<std::byte*>(bytes.mutable_data_ptr()));
    return coding->bound(parameter, bytes);
  };
  const at::Tensor norm = values({kIn}, 1) + 2, bias = values({3 * kIn}, 5);
  for (const uint32_t form : {PL_FORM_INT8, PL_FORM_NF4}) {
    const Tensors few = {coded(values({kIn, 3 * kIn}, 2) * 0.2, form),
                         coded(values({kIn, 2 * kInner}, 3) * 0.2, form),
                         coded(values({kInner, kIn}, 4) * 0.2, form)};
    Tensors wide;
    for (const at::Tensor& weight : few) wide.push_back(decoded(weight, at::kFloat).contiguous());
    const auto run = [&](const at::Tensor& x, const Tensors& t, at::ScalarType compute) {
      const at::Tensor y = norm_linear(x, {norm, {}}, columns({t[0], {}}, kIn, kIn), compute);
      const at::Tensor z = linear(y.narrow(1, 0, kIn), columns({t[0], bias}, 2 * kIn, kIn)).to(at::kFloat);
      return norm_gated_residual(linear_residual(z, columns({t[0], {}}, 0, kIn), x, {}), {norm, {}},
                                 {t[1], {}}, {t[2], {}}, compute);
    };
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      const Tensors x = leaves({values({kFrozenRows, kIn}, 9), values({kFrozenRows, kIn}, 9)});
      const at::Tensor expected = run(x[0], wide, compute), y = run(x[1], few, compute);
      expected.sum().backward();
      y.sum().backward();
      if (compute == at::kFloat) {
        EXPECT_TRUE(y.equal(expected));
        EXPECT_TRUE(x[1].grad().equal(x[0].grad()));
      } else {
        expect_close(y, expected, 2e-2, "result");
        expect_close(x[1].grad(), x[0].grad(), 2e-2, "gradient");
      }
    }
  }
}

TEST(FrozenBlocksTest, AnEmbeddingAndHeadInBfloat16HaveTheBitsOfTheSameInFloat32) {
  const at::Tensor narrow = values({50, kFrozenWidth}, 3).to(at::kBFloat16), wide = narrow.to(at::kFloat);
  const at::Tensor tokens = at::arange(kFrozenRows, at::kLong) % 50, norm = values({kFrozenWidth}, 2) + 2;
  const Tensors inserted = leaves({values({5, kFrozenWidth}, 8), values({5, kFrozenWidth}, 8)});
  const auto loss_of = [&](const at::Tensor& table, const at::Tensor& features) {
    const at::Tensor x =
        embed(tokens, {}, table, {}, {}, nullptr, {at::arange(5, at::kLong), features}, at::kFloat);
    return cross_entropy_head(x, tokens, {norm, {}}, table, {}).scaled;
  };
  const at::Tensor of_wide = loss_of(wide, inserted[0]), of_narrow = loss_of(narrow, inserted[1]);
  EXPECT_TRUE(of_wide.equal(of_narrow));
  of_wide.backward();
  of_narrow.backward();
  EXPECT_TRUE(inserted[0].grad().equal(inserted[1].grad()));
  const at::Tensor x = values({3, kFrozenWidth}, 1);
  EXPECT_TRUE(
      head_logits(x, {norm, {}}, narrow, at::kFloat).equal(head_logits(x, {norm, {}}, wide, at::kFloat)));
}

// What parts of a block behind frozen ones keep; x has no gradient.
TEST(FrozenBlocksTest, EachKeepsWhatItsOwnGradientsNeed) {
  const at::Tensor x = values({kFrozenRows, kFrozenWidth}, 1);
  const at::Tensor norm = values({kFrozenWidth}, 2) + 2, bias = values({kFrozenWidth}, 3);
  const at::Tensor up = values({kFrozenWidth, 2 * kFrozenInner}, 4),
                   down = leaves({values({kFrozenInner, kFrozenWidth}, 5)})[0];
  // The gradient of the last weight needs the gate's input alone.
  const auto swiglu = kept_bytes([&] {
    return norm_gated_residual(x, {norm, {}}, {up, {}}, {down, {}}, at::kFloat);
  });
  EXPECT_LE(swiglu.second, kFrozenRows * 2 * kFrozenInner * 4 + 4096);
  // The gradient of a bias needs nothing of the input's size.
  const at::Tensor trained = leaves({bias})[0], square = values({kFrozenWidth, kFrozenWidth}, 6);
  const auto linear_of = kept_bytes([&] {
    return norm_linear(x, {norm, bias}, {square, trained}, at::kFloat);
  });
  EXPECT_LE(linear_of.second, 1024);
  // A picture's features in frozen embeddings need only their places.
  const at::Tensor table = values({10, kFrozenWidth}, 7), tokens = at::zeros({kFrozenRows}, at::kLong),
                   features = leaves({values({5, kFrozenWidth}, 8)})[0];
  const Inserted inserted{at::arange(5, at::kLong), features};
  const auto embedded = kept_bytes([&] { return embed(tokens, {}, table, {}, {}, nullptr, inserted); });
  EXPECT_LE(embedded.second, 4096);
}

TEST(FrozenBlocksTest, AFrozenHeadKeepsTheGradientOfItsInputAlone) {
  const at::Tensor targets = at::arange(kFrozenRows, at::kLong) % 50;
  const auto head = [&](const Tensors& t) {
    return kept_bytes([&] { return cross_entropy_head(t[0], targets, {t[1], {}}, t[2], {}).scaled; });
  };
  Tensors trained = leaves(
      {values({kFrozenRows, kFrozenWidth}, 1), values({kFrozenWidth}, 2), values({50, kFrozenWidth}, 3)});
  Tensors frozen = leaves(
      {values({kFrozenRows, kFrozenWidth}, 1), values({kFrozenWidth}, 2), values({50, kFrozenWidth}, 3)});
  frozen[1].requires_grad_(false);
  frozen[2].requires_grad_(false);
  const auto [loss, all] = head(trained);
  const auto [same, some] = head(frozen);
  EXPECT_LE(some, kFrozenRows * kFrozenWidth * 4 + 1024);
  EXPECT_GE(all, some + 50 * kFrozenWidth * 4);
  loss.backward();
  same.backward();
  EXPECT_TRUE(loss.equal(same));
  EXPECT_TRUE(trained[0].grad().equal(frozen[0].grad()));
  // Without the gradient of its input the head computes and keeps that of its weight alone.
  Tensors last = leaves(
      {values({kFrozenRows, kFrozenWidth}, 1), values({kFrozenWidth}, 2), values({50, kFrozenWidth}, 3)});
  last[0].requires_grad_(false);
  last[1].requires_grad_(false);
  const auto [again, own] = head(last);
  EXPECT_LE(own, 50 * kFrozenWidth * 4 + 1024);
  again.backward();
  EXPECT_TRUE(trained[2].grad().equal(last[2].grad()));
}

}  // namespace
}  // namespace pipeline::transformer::testing
