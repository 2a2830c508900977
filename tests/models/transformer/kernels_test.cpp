#include "transformer/kernels/kernels.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradients.hpp"
#include "transformer/dropout.hpp"
#include "transformer/gemm.hpp"

namespace pipeline::transformer::testing {
namespace {

class KernelsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = kernels_named(GetParam());
    if (!kernels_) GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  const Kernels* kernels_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(InstructionSets, KernelsTest, ::testing::Values("avx512", "avx2", "sse2"));

float* data(at::Tensor& x) { return x.mutable_data_ptr<float>(); }
const float* data(const at::Tensor& x) { return x.const_data_ptr<float>(); }

TEST_P(KernelsTest, GemmOfEveryLayoutAndRaggedSizes) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                {3, 5, 7},
                                {14, 32, 384},
                                {15, 33, 385},
                                {229, 65, 20},
                                {6, 3080, 3},
                                {2, 304, 9}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const at::Tensor a = a_transposed ? values({k, m}, 1) : values({m, k}, 1);
        const at::Tensor b = b_transposed ? values({n, k}, 2) : values({k, n}, 2);
        const at::Tensor bias = values({n}, 3), addend = values({m, n}, 4);
        at::Tensor c = values({m, n}, 5), gelu = at::empty({m, n});
        const at::Tensor product =
            at::mm((a_transposed ? a.t() : a).to(at::kDouble), (b_transposed ? b.t() : b).to(at::kDouble));
        const at::Tensor expected = product + bias + addend + c;
        Gemm gemm{.m = m,
                  .n = n,
                  .k = k,
                  .a = data(a),
                  .lda = a.stride(0),
                  .a_transposed = a_transposed,
                  .b = data(b),
                  .ldb = b.stride(0),
                  .b_transposed = b_transposed,
                  .c = data(c),
                  .ldc = n};
        Gemm whole = gemm;
        whole.accumulate = true;
        whole.bias = data(bias), whole.addend = data(addend), whole.gelu = data(gelu);
        kernels_->gemm(whole);
        const std::string what = c10::str(m, " ", n, " ", k, " ", a_transposed, b_transposed);
        expect_close(c, expected, 3e-6, what);  // sums of sines cancel
        expect_close(gelu, at::gelu(expected, "tanh"), 2e-6, what + " gelu");

        const at::Tensor narrow = b.to(at::kBFloat16), wide = narrow.to(at::kFloat);
        at::Tensor of_narrow = at::empty({m, n}), of_wide = at::empty({m, n});
        gemm.b = data(wide), gemm.c = data(of_wide);
        kernels_->gemm(gemm);
        gemm.b = nullptr, gemm.narrow_b = static_cast<const uint16_t*>(narrow.const_data_ptr());
        gemm.c = data(of_narrow);
        kernels_->gemm(gemm);
        EXPECT_TRUE(of_narrow.equal(of_wide)) << what;
      }
    }
  }
}

// Few rows read b where it lies, a block of rows a panel of it at a time, and more a larger panel.
TEST_P(KernelsTest, RowsOfGemmDoNotDependOnTheirNumber) {
  constexpr int64_t kMost = 240, kColumns = 272, kDepth = 1100;
  const at::Tensor a = values({kMost, kDepth}, 1), b = values({kDepth, kColumns}, 2),
                   bias = values({kColumns}, 3);
  const at::Tensor narrow = b.to(at::kBFloat16);
  for (const bool is_narrow : {false, true}) {
    for (const bool transposed : {false, true}) {
      const at::Tensor wide = transposed ? b.t().contiguous() : b;
      const at::Tensor halves = transposed ? narrow.t().contiguous() : narrow;
      const auto product = [&](int64_t rows) {
        at::Tensor c = at::empty({rows, kColumns}), gelu = at::empty({rows, kColumns});
        kernels_->gemm(
            {.m = rows,
             .n = kColumns,
             .k = kDepth,
             .a = data(a),
             .lda = kDepth,
             .a_transposed = false,
             .b = is_narrow ? nullptr : data(wide),
             .ldb = wide.stride(0),
             .b_transposed = transposed,
             .c = data(c),
             .ldc = kColumns,
             .bias = data(bias),
             .gelu = data(gelu),
             .form = Gelu::kQuick,
             .narrow_b = is_narrow ? static_cast<const uint16_t*>(halves.const_data_ptr()) : nullptr});
        return at::cat({c, gelu}, 1);
      };
      const at::Tensor all = product(kMost);
      for (const int64_t rows : {1, 2, 3, 4, 6, 7, 12, 14, 15, 40})
        EXPECT_TRUE(product(rows).equal(all.narrow(0, 0, rows)))
            << rows << " rows" << transposed << is_narrow;
    }
  }
}

// Rows in 8 and 4 bits: what is packed of them is their values, wherever blocks of k and threads' columns
// begin.
TEST_P(KernelsTest, GemmOfCodedRowsHasTheBitsOfTheSameValues) {
  for (const auto& [m, n, k] :
       {std::tuple{1, 64, 64}, {3, 100, 640}, {40, 65, 1088}, {250, 33, 320}, {5, 6400, 64}}) {
    for (const uint32_t form : {PL_FORM_INT8, PL_FORM_NF4}) {
      // The weight is (inputs, outputs), its rows those of outputs: b of x W, or of dy W^T.
      for (const bool is_backward : {false, true}) {
        const int64_t in = is_backward ? (n + 63) / 64 * 64 : k, out = is_backward ? k : n;
        const at::Tensor weight = values({in, out}, 2);
        const auto coding = coding_of_parts(in, {out / 2, out - out / 2});
        const Parameter parameter{.name = "weight", .shape = {in, out}};
        at::Tensor bytes = at::empty({static_cast<int64_t>(coding->bytes(parameter, form))}, at::kByte);
        coding->encode(parameter, form, weight, static_cast<std::byte*>(bytes.mutable_data_ptr()));
        const at::Tensor coded = coding->bound(parameter, bytes),
                         wide = decoded(coded, at::kFloat).contiguous();
        EXPECT_EQ(transformer::inputs(coded), in);
        EXPECT_EQ(transformer::outputs(coded), out);
        const at::Tensor a = values({m, is_backward ? out : in}, 1);
        const int64_t columns = is_backward ? in : out;
        at::Tensor c = at::empty({m, columns}), expected = at::empty({m, columns});
        Gemm gemm{.m = m,
                  .n = columns,
                  .k = a.size(1),
                  .a = data(a),
                  .lda = a.size(1),
                  .a_transposed = false,
                  .b = data(wide),
                  .ldb = wide.stride(0),
                  .b_transposed = is_backward,
                  .c = data(expected),
                  .ldc = columns};
        kernels_->gemm(gemm);
        gemm.b = nullptr, gemm.coded_b = static_cast<const uint8_t*>(coded.const_data_ptr());
        gemm.coded_form = form_of(coded), gemm.coded_columns = in, gemm.ldb = coded.stride(0);
        gemm.b_transposed = !is_backward, gemm.c = data(c);
        kernels_->gemm(gemm);
        const std::string what = c10::str(m, " ", n, " ", k, " ", form, is_backward);
        EXPECT_TRUE(c.equal(expected)) << what;
        if (!is_backward || columns < 48) continue;
        gemm.coded_first = 48, gemm.n = columns - 48, gemm.c += 48;  // another thread's columns
        c.zero_();
        kernels_->gemm(gemm);
        EXPECT_TRUE(c.narrow(1, 48, columns - 48).equal(expected.narrow(1, 48, columns - 48))) << what;
      }
    }
  }
}

TEST_P(KernelsTest, GeluAndItsGradientFarOutToo) {
  const at::Tensor x = at::cat({at::linspace(-30, 30, 6001), at::tensor({-1e4f, 1e4f, 0.0f})});
  at::Tensor y = at::empty_like(x), again = at::empty_like(x), d = at::ones_like(x);
  kernels_->gelu(Gelu::kTanh, data(x), data(y), x.numel());
  kernels_->gelu_backward(Gelu::kTanh, data(x), data(again), data(d), x.numel());
  const at::Tensor exact = x.to(at::kDouble);
  EXPECT_LT((y - at::gelu(exact, "tanh")).abs().max().item<double>(), 2e-6);
  EXPECT_LT((d - at::gelu_backward(at::ones_like(exact), exact, "tanh")).abs().max().item<double>(), 2e-6);
  EXPECT_LT((again - y).abs().max().item<double>(), 4e-6);
}

TEST_P(KernelsTest, CrossEntropyOfLargeAndSmallLogits) {
  for (const int64_t columns : {1, 5, 16, 17, 1000}) {
    for (const double size : {1.0, 1000.0}) {
      at::Tensor logits = values({columns}, 1) * size;
      const at::Tensor exact = logits.to(at::kDouble);
      const int64_t target = columns / 2;
      const auto [loss, added] = kernels_->cross_entropy_row(data(logits), columns, target, true, 0.5f, {});
      const at::Tensor log_p = at::log_softmax(exact, 0);
      EXPECT_NEAR(loss, -log_p[target].item<double>(), 1e-6 * (1 + size));
      EXPECT_EQ(added, 0);
      at::Tensor gradient = log_p.exp() * 0.5;
      gradient[target] -= 0.5;
      EXPECT_LT((logits - gradient).abs().max().item<double>(), 1e-6 * (1 + size / 100));
    }
  }
}

TEST_P(KernelsTest, TermsOfTheLoss) {
  const LossTerms terms{.z_loss = 0.01, .label_smoothing = 0.2};
  for (const int64_t columns : {1, 5, 16, 17, 1000}) {
    for (const double from : {0.0, -1000.0}) {
      at::Tensor logits = values({columns}, 1) + from;
      const at::Tensor x = logits.to(at::kDouble).requires_grad_();
      const int64_t target = columns / 2;
      const at::Tensor plain = at::cross_entropy_loss(x, at::scalar_tensor(target, at::kLong));
      const at::Tensor whole = at::cross_entropy_loss(x, at::scalar_tensor(target, at::kLong), {},
                                                      at::Reduction::Mean, -100, terms.label_smoothing) +
                               at::logsumexp(x, 0).square() * terms.z_loss;
      const RowLoss loss = kernels_->cross_entropy_row(data(logits), columns, target, true, 0.5f, terms);
      EXPECT_NEAR(loss.cross_entropy, plain.item<double>(), 1e-6 * (1 - from));
      EXPECT_NEAR(loss.added, (whole - plain).item<double>(), 1e-6 * (1 + from * from));
      (whole * 0.5).backward();
      EXPECT_LT((logits - x.grad()).abs().max().item<double>(), 1e-6 * (1 - from / 100));
    }
  }
}

// In each bit, a column's gradient is the scale less where it is the target than where another one is.
TEST_P(KernelsTest, WithoutTermsTheGradientIsSoftmaxLessOneHot) {
  constexpr int64_t kColumns = 1003;
  constexpr float kScale = 0.37f;
  at::Tensor first = values({kColumns}, 1), second = first.clone();
  kernels_->cross_entropy_row(data(first), kColumns, 7, true, kScale, {});
  kernels_->cross_entropy_row(data(second), kColumns, 500, true, kScale, {});
  second[7] -= kScale;
  first[500] -= kScale;
  EXPECT_TRUE(first.equal(second));
}

TEST_P(KernelsTest, DropoutIsTheSameOnEveryInstructionSet) {
  const Dropout dropout{0.25, 77};
  const int64_t columns = 1003;
  const at::Tensor expected = dropout_mask(dropout, 5, 1, columns, at::kFloat);  // by ATen
  const at::Tensor ones = at::ones({1, columns});
  at::Tensor y = at::empty_like(ones);
  kernels_->dropout(data(ones), nullptr, data(y), columns,
                    {dropout_row_key(dropout.key, 5), dropout.threshold(), dropout.scale()});
  EXPECT_TRUE(y.equal(expected));
}

TEST_P(KernelsTest, LayerNormKeepsDigitsUnderALargeMean) {
  const at::Tensor x = values({3, 37}, 1) + 1000, weight = values({37}, 2), bias = values({37}, 3);
  at::Tensor y = at::empty_like(x), mean = at::empty({3}), rstd = at::empty({3});
  kernels_->layer_norm(data(x), data(weight), data(bias), data(y), data(mean), data(rstd), 3, 37, 1e-5f);
  const auto exact =
      at::layer_norm(x.to(at::kDouble), {37}, weight.to(at::kDouble), bias.to(at::kDouble), 1e-5);
  expect_close(y, exact, 1e-4, "y");
}

TEST_P(KernelsTest, RmsNormAndItsGradients) {
  for (const int64_t columns : {1, 5, 16, 37, 576}) {
    constexpr int64_t kRows = 3;
    const at::Tensor x = values({kRows, columns}, 1), weight = values({columns}, 2),
                     dy = values({kRows, columns}, 3), residual = values({kRows, columns}, 4);
    at::Tensor y = at::empty_like(x), again = at::empty_like(x), rstd = at::empty({kRows}),
               dx = at::empty_like(x), dweight = at::empty_like(weight);
    kernels_->layer_norm(data(x), data(weight), nullptr, data(y), nullptr, data(rstd), kRows, columns, 1e-5f);
    kernels_->layer_norm_again(data(x), data(weight), nullptr, nullptr, data(rstd), data(again), kRows,
                               columns);
    kernels_->layer_norm_backward(data(dy), data(x), data(weight), nullptr, data(rstd), data(residual),
                                  data(dx), kRows, columns);
    kernels_->layer_norm_backward_parameters(data(dy), data(x), nullptr, data(rstd), data(dweight), nullptr,
                                             kRows, columns, 0, columns);
    const std::vector<at::Tensor> exact = leaves({x, weight}, at::kDouble);
    const at::Tensor expected = exact[0] * (exact[0].square().mean(1, true) + 1e-5).rsqrt() * exact[1];
    (expected * dy.to(at::kDouble)).sum().backward();
    expect_close(y, expected, 1e-6, "y");
    EXPECT_TRUE(again.equal(y));
    expect_close(dx, exact[0].grad() + residual, 2e-6, "dx");
    expect_close(dweight, exact[1].grad(), 1e-6, "dweight");
  }
}

TEST_P(KernelsTest, GatedUnitsAndTheirGradientsFarOutToo) {
  for (const Gate gate : {Gate::kSilu, Gate::kGelu, Gate::kExactGelu}) {
    for (const int64_t inner : {1, 15, 16, 1003}) {
      const at::Tensor scales = at::tensor({1.0f, 10.0f, 60.0f, 1e4f}).view({4, 1});
      const at::Tensor gated =
          at::cat({values({4, inner}, 1) * scales, values({4, inner}, 2)}, 1).contiguous();
      const at::Tensor dy = values({4, inner}, 3);
      at::Tensor h = at::empty_like(dy), d = dy.clone(), dgated = at::empty_like(gated);
      kernels_->gated_unit(gate, data(gated), data(h), 4, inner);
      kernels_->gated_unit_backward(gate, data(gated), data(d), data(dgated), 4, inner);
      const at::Tensor exact = leaves({gated}, at::kDouble)[0], g = exact.narrow(1, 0, inner);
      const at::Tensor opened =
          gate == Gate::kSilu ? at::silu(g) : at::gelu(g, gate == Gate::kGelu ? "tanh" : "none");
      const at::Tensor expected = opened * exact.narrow(1, inner, inner);
      (expected * dy.to(at::kDouble)).sum().backward();
      for (int64_t row = 0; row < 4; ++row) {
        expect_close(h[row], expected[row], 1e-6, "h");
        expect_close(dgated[row], exact.grad()[row], 1e-6, "dgated");
      }
      EXPECT_TRUE(d.equal(h));
    }
  }
}

// Two heads of queries that share their keys add to the same gradients.
TEST_P(KernelsTest, AttentionAddsToTheGradientsOfSharedKeys) {
  constexpr int64_t kQueries = 130, kKeys = 150, kHeadWidth = 20;
  const at::Tensor k = values({kKeys, kHeadWidth}, 1), v = values({kKeys, kHeadWidth}, 2);
  at::Tensor dk = at::full_like(k, NAN), dv = at::full_like(v, NAN);
  const std::vector<at::Tensor> exact = leaves({k, v}, at::kDouble);
  for (const bool second : {false, true}) {
    const at::Tensor q = values({kQueries, kHeadWidth}, second ? 3 : 4),
                     dout = values({kQueries, kHeadWidth}, 5);
    at::Tensor out = at::empty_like(q), log_sum = at::empty({kQueries}), dq = at::empty_like(q);
    const AttentionHead head{.queries = kQueries,
                             .keys = kKeys,
                             .width = kHeadWidth,
                             .q = data(q),
                             .k = data(k),
                             .v = data(v),
                             .q_stride = kHeadWidth,
                             .kv_stride = kHeadWidth,
                             .positions = nullptr,
                             .scale = 0.25f,
                             .bias = nullptr,
                             .dropout_key = 0,
                             .dropout_threshold = 0,
                             .dropout_scale = 1};
    kernels_->attention(head, data(out), kHeadWidth, data(log_sum));
    kernels_->attention_backward(head, data(out), data(dout), kHeadWidth, data(log_sum), data(dq), kHeadWidth,
                                 data(dk), data(dv), kHeadWidth, second, nullptr);
    const at::Tensor weights = at::softmax(q.to(at::kDouble).mm(exact[0].t()) * 0.25, 1);
    (weights.mm(exact[1]) * dout.to(at::kDouble)).sum().backward();
    expect_close(dk, exact[0].grad(), 3e-6, "dk");
    expect_close(dv, exact[1].grad(), 3e-6, "dv");
  }
}

TEST(KernelsOfTwoWidths, HaveTheSameBits) {
  const Kernels *const narrow = kernels_named("avx2"), *const wide = kernels_named("avx512");
  if (!narrow || !wide) GTEST_SKIP() << "this CPU has no avx512";
  constexpr int64_t kRows = 150, kHeadWidth = 20;
  for (const int64_t columns : {1, 7, 24, 37, 576, 1100}) {
    const at::Tensor x = values({kRows, columns}, 1), dy = values({kRows, columns}, 2),
                     weight = values({columns}, 3), bias = values({columns}, 4),
                     k = values({columns, kHeadWidth}, 5), v = values({columns, kHeadWidth}, 6);
    const auto results = [&](const Kernels& with) {
      std::vector<at::Tensor> all;
      const auto made = [&](at::IntArrayRef sizes) { return data(all.emplace_back(at::zeros(sizes))); };
      for (const bool is_rms : {false, true}) {
        float *const mean = is_rms ? nullptr : made({kRows}), *const rstd = made({kRows});
        with.layer_norm(data(x), data(weight), is_rms ? nullptr : data(bias), made({kRows, columns}), mean,
                        rstd, kRows, columns, 1e-5f);
        with.layer_norm_backward(data(dy), data(x), data(weight), mean, rstd, nullptr, made({kRows, columns}),
                                 kRows, columns);
        with.layer_norm_backward_parameters(data(dy), data(x), mean, rstd, made({columns}),
                                            is_rms ? nullptr : made({columns}), kRows, columns, 0, columns);
      }
      for (const Gate gate : {Gate::kSilu, Gate::kGelu, Gate::kExactGelu}) {
        with.gated_unit(gate, data(x), made({kRows, columns / 2}), kRows, columns / 2);
        all.push_back(dy.clone());
        with.gated_unit_backward(gate, data(x), data(all.back()), made({kRows, columns}), kRows, columns / 2);
      }
      for (const Gelu form : {Gelu::kTanh, Gelu::kExact, Gelu::kQuick}) {
        with.gelu(form, data(x), made({kRows, columns}), kRows * columns);
        all.push_back(dy.clone());
        with.gelu_backward(form, data(x), made({kRows, columns}), data(all.back()), kRows * columns);
      }
      all.push_back(x.clone());
      with.cross_entropy_row(data(all.back()), columns, 0, true, 0.5f,
                             {.z_loss = 0.1, .label_smoothing = 0.1});
      with.gemm({.m = kRows,
                 .n = kHeadWidth,
                 .k = columns,
                 .a = data(x),
                 .lda = columns,
                 .b = data(k),
                 .ldb = kHeadWidth,
                 .c = made({kRows, kHeadWidth}),
                 .ldc = kHeadWidth});
      AttentionHead head{.queries = kRows,
                         .keys = columns,
                         .width = kHeadWidth,
                         .q = data(k),
                         .k = data(k),
                         .v = data(v),
                         .q_stride = 0,
                         .kv_stride = kHeadWidth,
                         .scale = 0.25f,
                         .softcap = 2,
                         .dropout_key = 7,
                         .dropout_threshold = 1u << 30,
                         .dropout_scale = 1.25f};
      float *const out = made({kRows, kHeadWidth}), *const log_sum = made({kRows});
      with.attention(head, out, kHeadWidth, log_sum);
      with.attention_backward(head, out, out, kHeadWidth, log_sum, made({kRows, kHeadWidth}), kHeadWidth,
                              made({columns, kHeadWidth}), made({columns, kHeadWidth}), kHeadWidth, false,
                              nullptr);
      return all;
    };
    const std::vector<at::Tensor> ours = results(*narrow), theirs = results(*wide);
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(ours[i].equal(theirs[i])) << columns << " columns, result " << i;
  }
}

TEST(GemmTest, RowsDoNotDependOnTheirNumberNorOnThreads) {
  const at::Tensor a = values({200, 700}, 1), b = values({700, 90}, 2);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor whole = gemm(a, b);
  for (const int threads : {2, 3, 4}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(gemm(a, b).equal(whole)) << threads;
  }
  at::set_num_threads(before);
  for (const int64_t rows : {1, 3, 14, 15, 100})
    EXPECT_TRUE(gemm(a.narrow(0, 0, rows), b).equal(whole.narrow(0, 0, rows))) << rows;
}

TEST(DropoutTest, KeepsTheShareItShould) {
  const at::Tensor y = apply_dropout(at::ones({500, 200}), {0.1, 3});
  EXPECT_NEAR(y.eq(0).sum().item<double>() / 1e5, 0.1, 0.005);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.005);
  EXPECT_FALSE(y[0].equal(y[1]));
  EXPECT_FALSE(y.equal(apply_dropout(at::ones({500, 200}), {0.1, 4})));
}

}  // namespace
}  // namespace pipeline::transformer::testing
