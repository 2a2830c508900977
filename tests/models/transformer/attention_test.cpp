#include "transformer/attention.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gradients.hpp"

namespace pipeline::transformer::testing {
namespace {

AttentionLayout self_layout(const std::vector<int64_t>& lengths, bool causal, int64_t heads = 2) {
  AttentionLayout layout;
  for (const int64_t length : lengths) layout.queries.append(length);
  layout.keys = layout.queries;
  layout.heads = heads;
  layout.causal = causal;
  return layout;
}

// The kernels against ATen in double precision, which takes the path that every other device and dtype takes.
void expect_self_attention(const AttentionLayout& layout, const Dropout& dropout, int64_t width) {
  const auto f = [&](const std::vector<at::Tensor>& in) {
    return ragged_self_attention(in[0], layout, dropout);
  };
  expect_same_function({values({layout.queries.rows(), 3 * width}, 1)}, f, f);
}

TEST(AttentionTest, CausalOverSequencesOfAllLengths) {
  expect_self_attention(self_layout({1, 130, 7, 0, 300, 126, 127}, true), {}, 48);
}

class AWindow : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(To, AWindow, ::testing::Bool(),
                         [](const auto& side) { return side.param ? "OneSide" : "BothSides"; });

TEST_P(AWindow, IsTheSameFunctionOnAllPaths) {
  for (const int64_t window : {2, 5, 100, 128, 299, 300}) {
    AttentionLayout layout = self_layout({1, 130, 7, 0, 300, 126, 127}, GetParam());
    layout.window = window;
    expect_self_attention(layout, {}, 20);
    expect_self_attention(layout, {0.3, 11}, 20);
    const AttentionLayout some = queries_at(layout, {0, 100, 131, 400, 437});
    const auto f = [&](const std::vector<at::Tensor>& in) {
      return ragged_attention(in[0], in[1], in[2], some, {}, in[3]);
    };
    const int64_t rows = layout.queries.rows();
    expect_same_function({values({5, 20}, 1), values({rows, 20}, 2), values({rows, 20}, 3),
                          values({2 * pair_starts(some).back()}, 4)},
                         f, f);
  }
}

TEST(AttentionTest, ScaledAndCapped) {
  AttentionLayout layout = self_layout({1, 130, 7, 0, 60}, true);
  layout.scale = 0.7;
  expect_self_attention(layout, {}, 20);
  const at::Tensor qkv = values({9, 12}, 1), scores = qkv.narrow(1, 0, 4).mm(qkv.narrow(1, 4, 4).t()) * 0.7;
  AttentionLayout one = self_layout({9}, true, 1);
  one.scale = 0.7;
  one.softcap = 0.3;
  const at::Tensor mask = at::ones({9, 9}, at::kBool).tril().logical_not();
  const at::Tensor expected =
      at::softmax(((scores / 0.3).tanh() * 0.3).masked_fill(mask, -INFINITY), 1).mm(qkv.narrow(1, 8, 4));
  EXPECT_TRUE(ragged_self_attention(qkv, one).allclose(expected, 1e-5, 1e-6));
  one.window = 4;
  EXPECT_FALSE(ragged_self_attention(qkv, one).allclose(expected, 1e-3, 1e-3));
  for (const double cap : {0.01, 1.0, 50.0}) {  // from scores far beyond it to those that it hardly changes
    layout.softcap = cap;
    expect_self_attention(layout, {}, 20);
    expect_self_attention(layout, {0.3, 11}, 20);
  }
}

// A key outside of the window has no say, and inside it all are as without one.
TEST_P(AWindow, IsWhatItSays) {
  constexpr int64_t kWindow = 3;
  AttentionLayout windowed = self_layout({9}, GetParam());
  windowed.window = kWindow;
  const at::Tensor qkv = values({9, 12}, 1), out = ragged_self_attention(qkv, windowed);
  for (int64_t place = 0; place < 9; ++place) {
    const int64_t first = std::max<int64_t>(0, place - kWindow + 1),
                  end = GetParam() ? place + 1 : std::min<int64_t>(9, place + kWindow);
    const at::Tensor alone = ragged_self_attention(qkv.narrow(0, first, end - first).contiguous(),
                                                   self_layout({end - first}, GetParam()));
    EXPECT_TRUE(out[place].allclose(alone[place - first], 1e-6, 1e-7)) << place;
  }
}

TEST(AttentionTest, FullOverSequencesOfAllLengths) {
  expect_self_attention(self_layout({5, 140, 1, 33}, false), {}, 20);
}

AttentionLayout sharing(AttentionLayout layout, int64_t heads, int64_t key_heads) {
  layout.heads = heads;
  layout.key_heads = key_heads;
  return layout;
}

// Grouped queries against the keys and values that each head would have of its own.
TEST(AttentionTest, HeadsThatShareKeys) {
  constexpr int64_t kHead = 10;
  const auto each = [](const at::Tensor& k, const AttentionLayout& layout) {
    return k.view({k.size(0), layout.key_heads, kHead})
        .repeat_interleave(layout.heads / layout.key_heads, 1)
        .flatten(1);
  };
  for (const auto& [heads, key_heads] : {std::pair{6, 2}, {3, 1}, {4, 4}}) {
    for (const bool causal : {true, false}) {
      for (const Dropout& dropout : {Dropout{}, Dropout{0.3, 12}}) {
        const AttentionLayout layout = sharing(self_layout({1, 130, 7, 0, 300}, causal), heads, key_heads);
        const int64_t rows = layout.queries.rows(), width = heads * kHead, keys = key_heads * kHead;
        const auto own = [&](const std::vector<at::Tensor>& in) {
          AttentionLayout unshared = layout;
          unshared.key_heads = 0;
          return ragged_attention(in[0].narrow(1, 0, width), each(in[0].narrow(1, width, keys), layout),
                                  each(in[0].narrow(1, width + keys, keys), layout), unshared, dropout);
        };
        expect_same_function(
            {values({rows, width + 2 * keys}, 1)},
            [&](const std::vector<at::Tensor>& in) { return ragged_self_attention(in[0], layout, dropout); },
            own);
      }
    }
  }
}

TEST(AttentionTest, HeadsThatShareKeysOfSomeQueriesAndWithABias) {
  AttentionLayout layout = sharing(queries_at(self_layout({9, 3, 148}, true), {3, 8, 89, 159}), 6, 3);
  const int64_t pairs = pair_starts(layout).back();
  const auto f = [&](const std::vector<at::Tensor>& in) {
    return ragged_attention(in[0], in[1], in[2], layout, {}, in[3]);
  };
  const std::vector<at::Tensor> in = {values({4, 48}, 1), values({160, 24}, 2), values({160, 24}, 3),
                                      values({pairs * 6}, 4)};
  expect_same_function(in, f, f);
  layout.causal = false;
  layout.positions.clear();
  expect_same_function(in, f, f);
}

TEST(AttentionTest, HeadsThatShareKeysOnAnyThreads) {
  const AttentionLayout layout = sharing(self_layout({150, 200, 3}, true), 6, 2);
  expect_threads_do_not_matter({values({353, 10 * 16}, 1)}, [&](const std::vector<at::Tensor>& in) {
    return ragged_self_attention(in[0], layout, {0.1, 1});
  });
}

TEST(AttentionTest, FlashIsAskedOnlyForWhatItTakes) {
  const AttentionLayout layout = self_layout({5, 0, 1}, true);
  const auto rows = [](int64_t width, at::ScalarType type = at::kBFloat16) {
    return at::zeros({6, 2 * width}, type);
  };
  const auto can = [&](const at::Tensor& q, int capability = 90) {
    return flash_can(q, layout, {}, capability);
  };
  EXPECT_TRUE(can(rows(64)));
  EXPECT_TRUE(can(rows(8, at::kHalf), 80));
  EXPECT_TRUE(can(rows(256)));
  EXPECT_FALSE(can(rows(264)));
  EXPECT_FALSE(can(rows(12)));
  EXPECT_FALSE(can(rows(64, at::kFloat)));
  EXPECT_FALSE(can(rows(64, at::kHalf), 75));
  EXPECT_FALSE(can(rows(64), 0));  // not known
  EXPECT_FALSE(flash_can(rows(64), layout, at::zeros({52}), 90));
  EXPECT_FALSE(flash_can(rows(64).narrow(0, 0, 0), self_layout({0, 0}, true), {}, 90));
  EXPECT_TRUE(flash_can(rows(64), sharing(layout, 2, 1), {}, 90));
  EXPECT_TRUE(flash_can(rows(64), queries_at(layout, {3, 4, 5}), {}, 90));
  EXPECT_FALSE(flash_can(rows(64), queries_at(layout, {2, 3, 5}), {}, 90));
  AttentionLayout windowed = layout;
  windowed.window = 2, windowed.scale = 0.3;
  EXPECT_TRUE(flash_can(rows(64), windowed, {}, 90));
  windowed.softcap = 50;
  EXPECT_FALSE(flash_can(rows(64), windowed, {}, 90));
  AttentionLayout cached = layout;
  cached.decoding = true;
  EXPECT_TRUE(flash_can(rows(64), queries_at(cached, {2, 3, 5}), {}, 90));
  EXPECT_FALSE(flash_can(rows(64), queries_at(cached, {2, 4, 5}), {}, 90));
}

TEST(AttentionTest, CudnnIsAskedOnlyForTheUsualShape) {
  const auto usual = [](const std::vector<int64_t>& lengths, int64_t length = 64) {
    AttentionLayout layout = self_layout(lengths, true);
    layout.full_length = length;
    return layout;
  };
  const auto can = [](const AttentionLayout& layout, int64_t width = 64, at::ScalarType type = at::kBFloat16,
                      const Dropout& dropout = {}, const at::Tensor& bias = {}, int capability = 90) {
    return cudnn_can(at::zeros({layout.queries.rows(), 2 * width}, type), layout, dropout, bias, capability);
  };
  const AttentionLayout two = usual({64, 64});
  EXPECT_TRUE(can(two));
  EXPECT_TRUE(can(usual({64}), 128, at::kHalf));
  EXPECT_FALSE(can(usual({64, 64}, 0))) << "equal by chance: a plan would hardly be used again";
  EXPECT_FALSE(can(usual({64, 63})));
  EXPECT_FALSE(can(usual({32, 32}, 32)));
  EXPECT_FALSE(can(usual({})));
  EXPECT_FALSE(can(two, 136));
  EXPECT_FALSE(can(two, 12));
  EXPECT_FALSE(can(two, 64, at::kFloat));
  EXPECT_FALSE(can(two, 64, at::kBFloat16, {0.1, 3}));
  EXPECT_FALSE(can(two, 64, at::kBFloat16, {}, at::zeros({2 * 2 * 64 * 64})));
  EXPECT_FALSE(can(two, 64, at::kBFloat16, {}, {}, 75));
  EXPECT_FALSE(can(queries_at(two, {63, 127})));
  EXPECT_TRUE(can(sharing(two, 2, 1)));
  at::globalContext().setDeterministicAlgorithms(true, false);
  EXPECT_FALSE(can(two));
  at::globalContext().setDeterministicAlgorithms(false, false);
}

// Queries and keys of other lengths, without a mask: what flash attention is given offsets of its own for.
TEST(AttentionTest, OtherKeysThanQueries) {
  AttentionLayout layout{.queries = {}, .keys = {}, .heads = 2, .causal = false, .positions = {}};
  layout.queries.starts = {0, 2, 2, 5};
  layout.keys.starts = {0, 9, 12, 40};
  const auto f = [&](const std::vector<at::Tensor>& in) {
    return ragged_attention(in[0], in[1], in[2], layout);
  };
  expect_same_function({values({5, 16}, 1), values({40, 16}, 2), values({40, 16}, 3)}, f, f);
}

TEST(AttentionTest, DropoutMasksAreTheSameOnBothPaths) {
  expect_self_attention(self_layout({40, 9, 150}, true), {0.3, 11}, 16);
  expect_self_attention(self_layout({40, 9, 150}, false), {0.3, 12}, 16);
}

TEST(AttentionTest, SomeQueriesOfEachSequence) {
  AttentionLayout layout;
  layout.heads = 3;
  layout.queries.starts = {0, 2, 2, 5};
  layout.keys.starts = {0, 9, 12, 160};
  layout.positions = {3, 8, 0, 77, 147};
  const auto f = [&](const std::vector<at::Tensor>& in) {
    return ragged_attention(in[0], in[1], in[2], layout);
  };
  expect_same_function({values({5, 24}, 1), values({160, 24}, 2), values({160, 24}, 3)}, f, f);
}

TEST(AttentionTest, ASubsetOfQueriesHasTheBitsOfTheWhole) {
  const AttentionLayout whole = self_layout({150, 20}, true);
  const at::Tensor qkv = values({170, 96}, 1);
  const at::Tensor expected = ragged_self_attention(qkv, whole);
  AttentionLayout some = whole;
  some.queries.starts = {0, 2, 3};
  some.positions = {5, 149, 19};
  const at::Tensor rows = at::tensor({5L, 149L, 169L}, at::kLong);
  const at::Tensor q = qkv.narrow(1, 0, 32).index_select(0, rows);
  const at::Tensor out = ragged_attention(q, qkv.narrow(1, 32, 32), qkv.narrow(1, 64, 32), some);
  EXPECT_LT((out - expected.index_select(0, rows)).abs().max().item<float>(), 1e-6f);
}

TEST(AttentionTest, KeysThatNoQuerySeesMayHoldAnything) {
  AttentionLayout layout;
  layout.heads = 2;
  layout.queries.starts = {0, 1, 1, 3};
  layout.keys.starts = {0, 8, 10, 30};
  layout.positions = {4, 9, 6};
  const at::Tensor unseen = at::ones({30, 1}, at::kBool);
  unseen.narrow(0, 0, 5).fill_(false);
  unseen.narrow(0, 10, 10).fill_(false);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const auto out = [&](double rest) {
      const auto keys = [&](int64_t seed) {
        return values({30, 16}, seed).masked_fill(unseen, rest).to(type);
      };
      return ragged_attention(values({3, 16}, 1).to(type), keys(2), keys(3), layout);
    };
    EXPECT_TRUE(out(NAN).equal(out(0))) << type;
    EXPECT_TRUE(out(INFINITY).equal(out(0))) << type;
  }
}

// Attention with a bias, over all queries and over some of them.
void expect_biased_attention(const AttentionLayout& layout, const Dropout& dropout) {
  const int64_t pairs = pair_starts(layout).back();
  const auto f = [&](const std::vector<at::Tensor>& in) {
    return ragged_attention(in[0], in[1], in[2], layout, dropout, in[3]);
  };
  const int64_t queries = layout.queries.rows(), keys = layout.keys.rows(), width = 8 * layout.heads;
  expect_same_function({values({queries, width}, 1), values({keys, width}, 2), values({keys, width}, 3),
                        values({pairs * layout.heads}, 4)},
                       f, f);
}

TEST(AttentionTest, ABiasIsAddedToTheScoresAndHasAGradient) {
  expect_biased_attention(self_layout({5, 140, 1, 33}, false), {});
  expect_biased_attention(self_layout({5, 140, 0, 33}, true), {});
  expect_biased_attention(self_layout({40, 9, 150}, false), {0.3, 12});
  AttentionLayout some = self_layout({9, 3, 148}, false);
  some.queries.starts = {0, 2, 2, 5};
  expect_biased_attention(some, {});
  some.causal = true;
  some.positions = {3, 8, 0, 77, 147};
  expect_biased_attention(some, {});
}

TEST(AttentionTest, ABiasOfSelfAttention) {
  const AttentionLayout layout = self_layout({5, 140, 33}, false);
  const auto f = [&](const std::vector<at::Tensor>& in) {
    return ragged_self_attention(in[0], layout, {}, in[1]);
  };
  expect_same_function({values({178, 48}, 1), values({2 * (25 + 140 * 140 + 33 * 33)}, 2)}, f, f);
}

TEST(AttentionTest, ABiasOfTheWrongSizeIsRefused) {
  const AttentionLayout layout = self_layout({5, 3}, false);
  EXPECT_THROW(ragged_self_attention(values({8, 48}, 1), layout, {}, values({2 * 33}, 2)), c10::Error);
}

TEST(AttentionTest, ThreadsDoNotMatter) {
  const AttentionLayout layout = self_layout({150, 200, 3}, true);
  expect_threads_do_not_matter({values({353, 96}, 1)}, [&](const std::vector<at::Tensor>& in) {
    return ragged_self_attention(in[0], layout, {0.1, 1});
  });
}

TEST(AttentionTest, WrongSizesAreRefused) {
  AttentionLayout layout = self_layout({4}, true, 5);
  EXPECT_THROW(ragged_attention(values({4, 8}, 1), values({4, 8}, 2), values({4, 8}, 3), layout), c10::Error);
  layout = self_layout({5}, true);
  EXPECT_THROW(ragged_attention(values({4, 8}, 1), values({4, 8}, 2), values({4, 8}, 3), layout), c10::Error);
  layout = sharing(self_layout({4}, true), 6, 4);  // 4 does not divide 6
  EXPECT_THROW(ragged_self_attention(values({4, 14 * 8}, 1), layout), c10::Error);
  layout.key_heads = 2;
  EXPECT_THROW(ragged_self_attention(values({4, 3 * 6 * 8 + 4}, 1), layout), c10::Error);
  EXPECT_THROW(ragged_attention(values({4, 48}, 1), values({4, 48}, 2), values({4, 48}, 3), layout),
               c10::Error);
}

}  // namespace
}  // namespace pipeline::transformer::testing
