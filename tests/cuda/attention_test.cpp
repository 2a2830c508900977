#include "transformer/attention.hpp"

#include <cmath>

#include "tests/cuda/place.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::tests {
namespace {

using namespace transformer;

class Attention : public InPlace {};
PIPELINE_IN_ALL_PLACES(Attention);

AttentionLayout layout(const std::vector<int64_t>& lengths, bool causal, int64_t heads = 2) {
  AttentionLayout made;
  for (const int64_t length : lengths) made.queries.append(length);
  made.keys = made.queries;
  made.heads = heads;
  made.causal = causal;
  return made;
}

// Head widths: 64 is flash attention's, 10 no multiple of eight, 264 too wide for it.
TEST_P(Attention, OfSequencesOfAllLengths) {
  for (const bool causal : {true, false}) {
    for (const int64_t width : {64, 10, 264}) {
      const AttentionLayout all = layout({1, 130, 7, 0, 300, 126, 127}, causal);
      expect_same({values({all.queries.rows(), 6 * width}, 1)},
                  [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], all); });
    }
  }
}

TEST_P(Attention, InAWindow) {
  for (const double softcap : {0, 2}) {  // flash attention takes no cap
    for (const int64_t window : {1, 5, 128}) {
      for (const bool causal : {true, false}) {
        AttentionLayout all = layout({1, 130, 7, 0, 300}, causal);
        all.window = window;
        all.softcap = softcap;
        all.scale = 0.2;
        expect_same({values({all.queries.rows(), 6 * 64}, 1)},
                    [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], all); });
      }
    }
  }
}

// Equal lengths with and without a plan of cuDNN's; a picture has 197 tokens.
TEST_P(Attention, OfEqualLengths) {
  for (const int64_t tokens : {256, 197}) {
    for (const int64_t usual : {tokens, int64_t{0}}) {
      for (const bool causal : {true, false}) {
        for (const int64_t key_heads : {4, 2}) {
          AttentionLayout equal = layout({tokens, tokens, tokens}, causal, 4);
          equal.full_length = usual;
          equal.key_heads = key_heads;
          expect_same({values({3 * tokens, (4 + 2 * key_heads) * 64}, 1)},
                      [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], equal); });
        }
      }
    }
  }
}

// The layers of a stack share a layout that is uploaded once.
TEST_P(Attention, OfALayoutThatIsOnTheDeviceAlready) {
  const AttentionLayout all = layout({1, 130, 7, 0, 300}, true), there = shared_by_layers(all);
  const at::Tensor qkv = here(values({all.queries.rows(), 6 * 64}, 1).to(type()));
  EXPECT_TRUE(ragged_self_attention(qkv, there).equal(ragged_self_attention(qkv, all)));
  const AttentionLayout some = queries_at(there, {0, 129, 130, 437});
  EXPECT_EQ(some.uploaded, nullptr) << "it has other queries";
}

// Grouped queries: three heads to one of keys. Where all sequences are of one row flash attention rearranges
// them.
TEST_P(Attention, OfHeadsThatShareKeys) {
  for (const int64_t width : {64, 10}) {
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{1, 130, 7, 0, 126}, {1, 0, 1}, {1, 1}}) {
      AttentionLayout all = layout(lengths, true, 6);
      all.key_heads = 2;
      expect_same({values({all.queries.rows(), 10 * width}, 1)},
                  [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], all); });
    }
    AttentionLayout last = queries_at(layout({30, 1, 0, 77}, true, 6), {28, 29, 30, 105, 106, 107});
    last.key_heads = 3;
    expect_same({values({6, 6 * width}, 1), values({108, 3 * width}, 2), values({108, 3 * width}, 3)},
                [&](const Tensors& t, at::ScalarType) { return ragged_attention(t[0], t[1], t[2], last); });
  }
}

// Decoding: one query for each slot of the cache, and a slot that rests.
TEST_P(Attention, OfACacheWhoseHeadsShareKeys) {
  const at::NoGradGuard decoding;
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{20, 41, 107}, {20, 107}}) {
    AttentionLayout cached = queries_at(layout({30, 30, 48}, true, 6), rows);
    cached.key_heads = 2;
    cached.decoding = true;
    const auto run = [&](at::ScalarType in, at::DeviceType on) {
      const auto there = [&](const at::Tensor& x) { return x.to(type()).to(in).to(on); };
      const auto count = static_cast<int64_t>(rows.size());
      return ragged_attention(there(values({count, 6 * 64}, 1)), there(values({108, 2 * 64}, 2)),
                              there(values({108, 2 * 64}, 3)), cached);
    };
    expect_close(run(type(), GetParam().device), run(at::kDouble, at::kCPU), tolerance(), "decoded");
  }
}

TEST_P(Attention, OfNoTokensAtAll) {
  for (const AttentionLayout& none : {layout({}, true), layout({0, 0}, true)}) {
    const at::Tensor out = ragged_self_attention(here(at::zeros({0, 3 * 128}, type())), none);
    EXPECT_EQ(out.sizes(), at::IntArrayRef({0, 128}));
  }
}

// Flash attention does not take this head width: where it runs, the mask is another one.
TEST_P(Attention, WithDropout) {
  const AttentionLayout all = layout({40, 9, 150}, true);
  const Dropout dropout = same_dropout({0.3, 11});
  expect_same({values({199, 6 * 12}, 1)},
              [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], all, dropout); });
}

// Any kernel's mask depends on the key alone, drops the share it should, and scales what is left.
TEST_P(Attention, DropoutDependsOnItsKey) {
  const AttentionLayout all = layout({512, 300}, false);
  for (const int64_t width : {64, 12}) {  // flash attention's, and one that it does not take
    at::Tensor qkv =
        at::zeros({812, 6 * width}, at::kFloat);  // equal weights, so that a result counts what is left
    qkv.narrow(1, 4 * width, 2 * width).fill_(1);
    const at::Tensor leaf = here(qkv.to(type())).requires_grad_(true);
    const auto out = [&](uint64_t key) { return ragged_self_attention(leaf, all, {0.25, key}); };
    const at::Tensor result = out(7);
    EXPECT_TRUE(result.equal(out(7)));
    EXPECT_FALSE(result.equal(out(8)));
    EXPECT_NEAR(result.to(at::kFloat).mean().item<double>(), 1, 5e-3);
    EXPECT_GT(result.to(at::kFloat).std().item<double>(), 1e-2);
    // What flows back to the values is what came from them.
    result.sum(at::kDouble).backward();
    EXPECT_NEAR(leaf.grad().narrow(1, 4 * width, 2 * width).sum(at::kDouble).item<double>(),
                result.sum(at::kDouble).item<double>(), 2e-3 * 812 * 2 * static_cast<double>(width));
  }
}

TEST_P(Attention, OfSomeQueriesOfEachSequence) {
  AttentionLayout some{.heads = 3};
  some.queries.starts = {0, 2, 2, 5};
  some.keys.starts = {0, 9, 12, 160};
  some.positions = {3, 8, 0, 77, 147};
  for (const bool causal : {true, false}) {
    some.causal = causal;
    if (!causal) some.positions.clear();
    expect_same({values({5, 192}, 1), values({160, 192}, 2), values({160, 192}, 3)},
                [&](const Tensors& t, at::ScalarType) { return ragged_attention(t[0], t[1], t[2], some); });
  }
}

// The rows of a summary, and the newest rows of a cache, whose keys behind them may hold anything.
TEST_P(Attention, OfTheLastQueriesOfEachSequence) {
  const AttentionLayout all = layout({30, 1, 0, 77}, true);
  const AttentionLayout last =
      queries_at(all, {25, 26, 27, 28, 29, 30, 100, 101, 102, 103, 104, 105, 106, 107});
  const int64_t queries = last.queries.rows();
  expect_same({values({queries, 128}, 1), values({108, 128}, 2), values({108, 128}, 3)},
              [&](const Tensors& t, at::ScalarType) { return ragged_attention(t[0], t[1], t[2], last); });

  const at::NoGradGuard decoding;
  AttentionLayout cached = queries_at(all, {20, 30, 40, 41});
  cached.decoding = true;
  const at::Tensor q = here(values({4, 128}, 1).to(type()));
  const auto keys = [&](double phase, double rest) {
    at::Tensor all_keys = values({108, 128}, phase);
    all_keys.narrow(0, 21, 9).fill_(rest);
    all_keys.narrow(0, 42, 66).fill_(rest);
    return here(all_keys.to(type()));
  };
  const at::Tensor seen = ragged_attention(q, keys(2, 0), keys(3, 0), cached);
  EXPECT_TRUE(ragged_attention(q, keys(2, NAN), keys(3, NAN), cached).equal(seen));
  const at::Tensor exact = ragged_attention(q.cpu().to(at::kDouble), keys(2, 0).cpu().to(at::kDouble),
                                            keys(3, 0).cpu().to(at::kDouble), cached);
  expect_close(seen, exact, tolerance(), "decoded");
}

TEST_P(Attention, WithABias) {
  const AttentionLayout all = layout({5, 140, 0, 33}, false);
  expect_same({values({178, 3 * 32}, 1), values({pair_starts(all).back() * all.heads}, 4)},
              [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], all, {}, t[1]); });
}

// Lengths so far apart that they do not share a rectangle: padding would cost more than another one.
TEST_P(Attention, OfLengthsFarApart) {
  const AttentionLayout all = layout({8, 1100, 0, 3}, false);
  const Dropout dropout = same_dropout({0.3, 11});
  expect_same({values({1111, 6 * 10}, 1)},
              [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], all, dropout); });
  expect_same({values({1111, 6 * 10}, 1), values({pair_starts(all).back() * all.heads}, 4)},
              [&](const Tensors& t, at::ScalarType) { return ragged_self_attention(t[0], all, {}, t[1]); });
}

// Chosen rows of proteins see all rows of theirs. Between CPU and device the rectangles differ.
TEST_P(Attention, WithABiasOfPairs) {
  AttentionLayout some{.heads = 2, .causal = false};
  some.queries.starts = {0, 2, 2, 6, 7};
  some.keys.starts = {0, 9, 12, 160, 170};
  const int64_t pairs = pair_starts(some).back();
  const auto attend = [&](const Tensors& t, at::ScalarType) {
    const AttentionLayout layout = shared_by_layers(some);
    const PairIndex index = pairs_of(layout, t[0].device());
    EXPECT_EQ(index.query.numel(), pairs);
    const Tensors biases = biases_of_pairs(t[3], index, layout);
    return ragged_attention(t[0], t[1], t[2], layout, {}, biases[0]) +
           ragged_attention(t[0], t[1], t[2], layout, {}, biases[1]);
  };
  const Tensors in = {values({7, 32}, 1), values({170, 32}, 2), values({170, 32}, 3), values({pairs, 4}, 4)};
  expect_same(in, attend);
  // In the other form the biases of each sequence lie head by head.
  Tensors by_head;
  const std::vector<int64_t> starts = pair_starts(some);
  for (size_t s = 0; s + 1 < starts.size(); ++s)
    by_head.push_back(in[3].narrow(0, starts[s], starts[s + 1] - starts[s]).narrow(1, 0, 2).t().flatten());
  const at::Tensor exact = ragged_attention(in[0], in[1], in[2], some, {}, at::cat(by_head));
  const AttentionLayout layout = shared_by_layers(some);
  const at::Tensor x = here(in[3].to(type()));
  const at::Tensor made =
      ragged_attention(here(in[0].to(type())), here(in[1].to(type())), here(in[2].to(type())), layout, {},
                       biases_of_pairs(x, pairs_of(layout, x.device()), layout)[0]);
  expect_close(made, exact, 3 * tolerance(), "by heads");
}

// Rotation computes in float32 everywhere, so that a rotated bfloat16 is rounded once.
TEST_P(Attention, RotaryPositions) {
  const at::Tensor positions = at::arange(150, at::kLong) * 7 % 101;
  for (const int64_t width : {10, 64}) {
    const auto turned = [&](const Tensors& t, at::ScalarType) {
      const Rotation by = rotation(positions.to(t[0].device()), rotary_frequencies(width).to(t[0].device()));
      return rotate_(t[0] * 1, 4 * width, by);
    };
    expect_same({values({150, 6 * width}, 1)}, turned);
  }
}

}  // namespace
}  // namespace pipeline::tests
