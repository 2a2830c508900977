// Attention of sequences that are padded to rectangles, by LibTorch's operations: any device and dtype, with
// whatever a layout may have. On a device the number of operations does not grow with the sequences, but for
// dropout in float32 and for a bias that is laid out for the CPU's kernels.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "attention_paths.hpp"
#include "gemm.hpp"
#include "kept.hpp"

namespace pipeline::transformer {
namespace {

// At most so many pairs of a rectangle may be padding: on a device another rectangle costs more than these.
int64_t most_padding(at::Device device) { return device.is_cuda() ? int64_t{1} << 20 : 0; }

bool is_triangle(const AttentionLayout& layout) {
  return layout.causal && layout.positions.empty() && layout.window_in_force() == 0;
}

int64_t position_of(const AttentionLayout& layout, int64_t s, int64_t row) {
  return layout.positions.empty() ? row - layout.queries.start(s)
                                  : layout.positions[static_cast<size_t>(row)];
}

// One more than the last key that the query in this row of sequence s sees; all before it but for a window.
int64_t seen_by(const AttentionLayout& layout, int64_t s, int64_t row) {
  const int64_t all = layout.keys.length(s);
  if (!layout.causal && layout.window_in_force() == 0) return all;
  return std::min(all, position_of(layout, s, row) + 1 + layout.ahead());
}

// How many keys of sequence s any of its queries sees. The rows behind them may hold anything, as those of a
// cache do, and a mask does not hide it: 0 * NaN is NaN.
int64_t seen_by_any(const AttentionLayout& layout, int64_t s) {
  if (!layout.causal || is_triangle(layout)) return layout.keys.length(s);
  int64_t most = 0;
  for (int64_t row = layout.queries.start(s); row < layout.queries.start(s + 1); ++row)
    most = std::max(most, seen_by(layout, s, row));
  return most;
}

// All keys, since a bias has places for all; for a cache, which has no bias, those that are seen.
int64_t padded_keys(const AttentionLayout& layout, int64_t s) {
  return std::max<int64_t>(1, layout.decoding ? seen_by_any(layout, s) : layout.keys.length(s));
}

// Rectangles from the longest to the shortest; sequences without a query are left out.
std::vector<Rectangle> rectangles_of(const AttentionLayout& layout, int64_t limit) {
  std::vector<int64_t> order;
  for (int64_t s = 0; s < layout.queries.sequences(); ++s)
    if (layout.queries.length(s) > 0) order.push_back(s);
  const auto size = [&](int64_t s) { return std::pair(padded_keys(layout, s), layout.queries.length(s)); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) > size(b); });
  // A key has a row of keys and one of values, which cost as much as a few dozen pairs.
  const auto cost = [](int64_t queries, int64_t keys) { return std::max<int64_t>(queries, 64) * keys; };
  std::vector<Rectangle> result;
  int64_t needed = 0;  // by the last rectangle's sequences
  for (const int64_t s : order) {
    const auto [keys, queries] = size(s);
    if (!result.empty()) {
      Rectangle& last = result.back();
      const int64_t most = std::max(last.queries, queries);
      const int64_t all = (last.count() + 1) * cost(most, last.keys);
      if (all - needed - cost(queries, keys) <= limit) {
        last.sequences.push_back(s);
        last.queries = most;
        needed += cost(queries, keys);
        continue;
      }
    }
    result.push_back({.sequences = {s}, .queries = queries, .keys = keys, .mask = {}});
    needed = cost(queries, keys);
  }
  return result;
}

// Which of its rectangle's keys each query sees, (count, queries, keys) of booleans; undefined: all, or up to
// itself in a triangle. A place without a query sees one, so that nothing becomes NaN.
at::Tensor mask_of(const Rectangle& rectangle, const AttentionLayout& layout, at::Device device) {
  if (is_triangle(layout)) return {};
  const int64_t window = layout.window_in_force();
  std::vector<int64_t> seen, first;
  bool all = true;
  for (const int64_t s : rectangle.sequences) {
    for (int64_t i = 0; i < rectangle.queries; ++i) {
      const bool is_query = i < layout.queries.length(s);
      seen.push_back(is_query ? std::max<int64_t>(1, seen_by(layout, s, layout.queries.start(s) + i)) : 1);
      first.push_back(
          is_query && window > 0
              ? std::max<int64_t>(0, position_of(layout, s, layout.queries.start(s) + i) + 1 - window)
              : 0);
      all = all && window == 0 && (!is_query || seen.back() == rectangle.keys);
    }
  }
  if (all) return {};
  const auto bounds = [&](const std::vector<int64_t>& of_queries) {
    return to_device(of_queries, device).view({rectangle.count(), rectangle.queries, 1});
  };
  const at::Tensor ends = bounds(seen), keys = at::arange(rectangle.keys, ends.options());
  return window == 0 ? keys.lt(ends) : keys.lt(ends).logical_and_(keys.ge(bounds(first)));
}

constexpr int64_t kNowhere = -1;

PaddedLayout padded(const AttentionLayout& layout, at::Device device) {
  PaddedLayout result;
  result.rectangles = rectangles_of(layout, most_padding(device));
  std::vector<int64_t> queries(static_cast<size_t>(layout.queries.rows())),
      keys(static_cast<size_t>(layout.keys.rows()), kNowhere);
  for (Rectangle& rectangle : result.rectangles) {
    for (const int64_t s : rectangle.sequences) {
      for (int64_t i = 0; i < layout.queries.length(s); ++i)
        queries[static_cast<size_t>(layout.queries.start(s) + i)] = result.queries + i;
      const int64_t seen = seen_by_any(layout, s);
      for (int64_t j = 0; j < seen; ++j)
        keys[static_cast<size_t>(layout.keys.start(s) + j)] = result.keys + j;
      result.queries += rectangle.queries;
      result.keys += rectangle.keys;
      result.pairs += rectangle.queries * rectangle.keys;
    }
    rectangle.mask = mask_of(rectangle, layout, device);
  }
  result.query_places = to_device(queries, device);
  std::vector<int64_t> rows;
  for (size_t row = 0; row < keys.size(); ++row)
    if (keys[row] != kNowhere) rows.push_back(static_cast<int64_t>(row));
  if (rows.size() < keys.size()) {
    result.key_rows = to_device(rows, device);
    std::erase(keys, kNowhere);
  }
  result.key_places = to_device(keys, device);
  return result;
}

const PaddedLayout& padded_once(const AttentionLayout& layout, at::Device device) {
  TORCH_CHECK(layout.uploaded, "attention: a layout that is not by shared_by_layers()");
  std::optional<PaddedLayout>& made = layout.uploaded->padded;
  if (!made) made = padded(layout, device);
  TORCH_CHECK(made->query_places.device() == device, "attention: a layout made for ",
              made->query_places.device(), " on ", device);
  return *made;
}

// x (from, heads, width) -> (heads, count, width): the chosen rows of x, or all, each at a place of its own,
// and zero where there is none. And back.
struct Places {
  at::Tensor places;  // (chosen rows) int64, below `count`
  at::Tensor rows;    // which are chosen; undefined: all
  int64_t count, from;

  at::Tensor spread(const at::Tensor& x) const {
    // Whole rows first: where it has to be deterministic, they are sorted by place.
    return at::zeros({count, x.size(1), x.size(2)}, x.options())
        .index_copy_(0, places, rows.defined() ? x.index_select(0, rows) : x)
        .transpose(0, 1)
        .contiguous();
  }
  at::Tensor gather(const at::Tensor& y) const {
    const at::Tensor chosen = y.index_select(1, places).transpose(0, 1);
    if (!rows.defined()) return chosen.contiguous();
    return at::zeros({from, y.size(0), y.size(2)}, y.options()).index_copy_(0, rows, chosen);
  }
};

// Autograd would add up rows where each has one place.
class Spread : public torch::autograd::Function<Spread> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Places& places) {
    keep(ctx, places);
    return places.spread(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {kept<Places>(ctx).gather(grads[0]), Variable()};
  }
};

class Gather : public torch::autograd::Function<Gather> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& y, const Places& places) {
    keep(ctx, places);
    return places.gather(y);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {kept<Places>(ctx).spread(grads[0]), Variable()};
  }
};

// weights: (heads, count, queries, keys) of the rectangle with this number.
at::Tensor dropped(const at::Tensor& weights, const Rectangle& rectangle, int64_t number,
                   const AttentionLayout& layout, const Dropout& dropout, bool drawn) {
  const auto keyed = [&](int64_t n) {
    return Dropout{dropout.p, dropout_row_key(dropout.key, static_cast<uint64_t>(n))};
  };
  if (drawn) return dropped_on_device(weights, keyed(number));
  std::vector<at::Tensor> masks;
  for (int64_t h = 0; h < layout.heads; ++h)
    for (const int64_t s : rectangle.sequences)
      masks.push_back(
          dropout_mask(keyed(s * layout.heads + h), 0, rectangle.queries, rectangle.keys, weights.options()));
  return weights * at::stack(masks).view_as(weights);
}

// q, k, v: (heads, count, rows, width); bias: (heads, count, queries, keys).
at::Tensor attend_rectangle(const Rectangle& rectangle, int64_t number, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, const AttentionLayout& layout,
                            const Dropout& dropout, const at::Tensor& bias) {
  const double scale = layout.scale_of(q.size(-1));
  if (!dropout.active() && !bias.defined() && layout.softcap == 0) {
    const std::optional<at::Tensor> mask =
        rectangle.mask.defined() ? std::optional(rectangle.mask.unsqueeze(0)) : std::nullopt;
    return at::scaled_dot_product_attention(q, k, v, mask, 0.0, is_triangle(layout), scale);
  }
  const bool is_capped = layout.softcap > 0;
  TORCH_CHECK(!is_capped || !bias.defined(), "attention: a bias beside a cap of the scores is not supported");
  const at::Tensor addend =
      bias.defined() ? bias.to(q.scalar_type()).flatten(0, 1) : at::zeros({1}, q.options());
  at::Tensor scores = at::baddbmm(addend, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2),
                                  /*beta=*/bias.defined() ? 1 : 0, /*alpha=*/scale)
                          .view({q.size(0), q.size(1), q.size(2), k.size(2)});
  if (is_capped) scores = (scores / layout.softcap).tanh() * layout.softcap;
  const at::Tensor mask = is_triangle(layout)
                              ? at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril()
                              : rectangle.mask;
  if (mask.defined()) scores = scores.masked_fill(mask.logical_not(), -INFINITY);
  at::Tensor weights = at::softmax(scores, -1, wide(q.scalar_type()));
  if (dropout.active()) weights = dropped(weights, rectangle, number, layout, dropout, draws_on_device(q));
  return at::matmul(weights.to(q.scalar_type()), v);
}

// The bias of sequences one after another (heads, queries, keys) each -> (heads, pairs of all rectangles).
at::Tensor padded_bias(const at::Tensor& bias, const AttentionLayout& layout) {
  if (bias.dim() == 2) return bias;
  const std::vector<int64_t> starts = pair_starts(layout);
  std::vector<at::Tensor> pairs;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int64_t count = starts[s + 1] - starts[s];
    pairs.push_back(
        bias.narrow(0, starts[s] * layout.heads, count * layout.heads).view({layout.heads, count}));
  }
  return biases_of_pairs(at::cat(pairs, 1).t(), pairs_of(layout, bias.device()), layout)[0];
}

// q, k, v: (heads or key heads, rows of all rectangles, width) -> (Nq, C)
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionLayout& layout, const Dropout& dropout, const at::Tensor& bias) {
  const PaddedLayout& all = padded_once(layout, q.device());
  const at::Tensor biases = bias.defined() ? padded_bias(bias, layout) : bias;
  TORCH_CHECK(!bias.defined() || biases.sizes() == at::IntArrayRef({layout.heads, all.pairs}),
              "attention: a bias of ", biases.sizes(), " made for another layout, must be (", layout.heads,
              ", ", all.pairs, ")");
  std::vector<at::Tensor> outs;
  int64_t queries = 0, keys = 0, pairs = 0;
  for (size_t n = 0; n < all.rectangles.size(); ++n) {
    const Rectangle& rectangle = all.rectangles[n];
    const int64_t count = rectangle.count();
    const auto rows = [&](const at::Tensor& x, int64_t first, int64_t each) {
      return x.narrow(1, first, count * each).reshape({x.size(0), count, each, x.size(2)});
    };
    const auto of_heads = [&](const at::Tensor& x) {
      return layout.sharing() == 1 ? x : x.repeat_interleave(layout.sharing(), 0);
    };
    const at::Tensor own = bias.defined()
                               ? biases.narrow(1, pairs, rectangle.pairs())
                                     .reshape({layout.heads, count, rectangle.queries, rectangle.keys})
                               : bias;
    outs.push_back(attend_rectangle(rectangle, static_cast<int64_t>(n), rows(q, queries, rectangle.queries),
                                    of_heads(rows(k, keys, rectangle.keys)),
                                    of_heads(rows(v, keys, rectangle.keys)), layout, dropout, own)
                       .flatten(1, 2));
    queries += count * rectangle.queries;
    keys += count * rectangle.keys;
    pairs += rectangle.pairs();
  }
  const at::Tensor out = outs.size() == 1 ? outs[0] : at::cat(outs, 1);
  return Gather::apply(out, Places{all.query_places, {}, all.queries, layout.queries.rows()}).flatten(1);
}

}  // namespace

at::Tensor padded_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& of, const Dropout& dropout, const at::Tensor& bias) {
  if (of.queries.rows() == 0) return q.clone();
  const AttentionLayout layout = shared_by_layers(of);
  const PaddedLayout& to = padded_once(layout, q.device());
  const Places queries{to.query_places, {}, to.queries, q.size(0)},
      keys{to.key_places, to.key_rows, to.keys, k.size(0)};
  const auto spread_keys = [&](const at::Tensor& x) {
    return Spread::apply(heads_of(x, layout.heads_of_keys()), keys);
  };
  return attend(Spread::apply(heads_of(q, layout.heads), queries), spread_keys(k), spread_keys(v), layout,
                dropout, bias);
}

at::Tensor padded_self_attention(const at::Tensor& qkv, const AttentionLayout& of, const Dropout& dropout,
                                 const at::Tensor& bias) {
  const AttentionLayout layout = shared_by_layers(of);
  const int64_t heads = layout.heads, keys = layout.heads_of_keys();
  if (!layout.positions.empty() || layout.queries.rows() == 0) {
    const auto [q, k, v] = parts_of(qkv, layout);
    return padded_attention(q, k, v, layout, dropout, bias);
  }
  const PaddedLayout& to = padded_once(layout, qkv.device());
  const at::Tensor all =
      Spread::apply(heads_of(qkv, heads + 2 * keys), Places{to.query_places, {}, to.queries, qkv.size(0)});
  const std::vector<at::Tensor> parts = all.split_with_sizes({heads, keys, keys}, 0);
  return attend(parts[0], parts[1], parts[2], layout, dropout, bias);
}

PairIndex pairs_of(const AttentionLayout& layout, at::Device device) {
  TORCH_CHECK(!layout.decoding, "attention: biases of a cache's keys are not supported");
  // For each sequence: the place of its first pair, and how far those of the next query are.
  std::vector<std::pair<int64_t, int64_t>> firsts(static_cast<size_t>(layout.queries.sequences()));
  int64_t place = 0;
  for (const Rectangle& rectangle : padded_once(layout, device).rectangles) {
    for (const int64_t s : rectangle.sequences) {
      firsts[static_cast<size_t>(s)] = {place, rectangle.keys};
      place += rectangle.queries * rectangle.keys;
    }
  }
  // For each query: how many pairs it has, and what is added to a pair's number for its key's row, and for
  // its place.
  std::vector<int64_t> counts, to_key, to_place;
  int64_t next = 0;
  for (int64_t s = 0; s < layout.queries.sequences(); ++s) {
    const auto [first, stride] = firsts[static_cast<size_t>(s)];
    for (int64_t i = 0; i < layout.queries.length(s); ++i) {
      counts.push_back(layout.keys.length(s));
      to_key.push_back(layout.keys.start(s) - next);
      to_place.push_back(first + i * stride - next);
      next += counts.back();
    }
  }
  const at::Tensor query = at::repeat_interleave(to_device(counts, device), std::optional<int64_t>(next)),
                   number = at::arange(next, query.options());
  const auto shifted = [&](const std::vector<int64_t>& by) {
    return to_device(by, device).index_select(0, query).add_(number);
  };
  return {query, shifted(to_key), shifted(to_place)};
}

std::vector<at::Tensor> biases_of_pairs(const at::Tensor& x, const PairIndex& pairs,
                                        const AttentionLayout& layout) {
  const int64_t places = padded_once(layout, x.device()).pairs;
  return Spread::apply(x.unsqueeze(2), Places{pairs.place, {}, places, x.size(0)})
      .squeeze(2)
      .split(layout.heads);
}

}  // namespace pipeline::transformer
