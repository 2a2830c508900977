#include "plugins/models/sentence_encoder/losses.hpp"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/models/sentence_encoder/sentence_encoder.hpp"
#include "transformer/gemm.hpp"

namespace pipeline::sentence_encoder {
namespace {

constexpr int64_t kBlock = 1024;  // rows whose similarities are in memory at a time
constexpr float kNever = -1e9F;   // added to a logit: its softmax is 0
constexpr int kKeyBits = 16;      // of a column: float32 has whole numbers of 24

// x y^T. Our own product: its bits do not depend on the number of threads.
at::Tensor products(const at::Tensor& x, const at::Tensor& y) {
  return transformer::gemm(x.contiguous(), y.t().contiguous());
}

// The texts of rows: (G, texts of a row, D + kTextKey).
at::Tensor texts_of(const at::Tensor& rows, int64_t width) {
  return rows.view({rows.size(0), -1, width + kTextKey});
}

// (G, texts of a row) numbers that are equal for equal texts; 0: there is none.
at::Tensor keys_of(const at::Tensor& texts, int64_t width) {
  at::Tensor key = at::zeros({texts.size(0), texts.size(1)}, texts.options().dtype(at::kLong));
  for (int64_t i = 0; i < kTextKey; ++i)
    key = key * (int64_t{1} << kKeyBits) + texts.select(2, width + i).to(at::kLong);
  return key;
}

// Slot after slot: (texts of a row * G, ...) of (G, texts of a row, ...), without the first `from` of each
// row.
at::Tensor by_slots(const at::Tensor& texts, int64_t from) {
  return texts.narrow(1, from, texts.size(1) - from).transpose(0, 1).flatten(0, 1);
}

}  // namespace

void write_key(const files::Hash128& text, float* key) {
  for (int64_t i = 0; i < kTextKey; ++i)
    key[i] = static_cast<float>(text.low >> (kKeyBits * i) & ((uint64_t{1} << kKeyBits) - 1));
  if (std::all_of(key, key + kTextKey, [](float part) { return part == 0; })) key[0] = 1;
}

RankingLoss::RankingLoss(int64_t width, int64_t negatives, LossOptions options)
    : width_(width), negatives_(negatives), options_(std::move(options)) {
  if (options_.dimensions.empty()) options_.dimensions = {width_};
}

at::Tensor RankingLoss::logits(const Space& space, Range queries, Range texts) const {
  const auto of = [](const at::Tensor& all, Range range) { return all.narrow(0, range.first, range.count); };
  const auto numbers = [&](Range range) {
    return at::arange(range.first, range.first + range.count, query_keys_.options());
  };
  const int64_t rows = query_keys_.size(0);
  const at::Tensor keys = of(text_keys_, texts).unsqueeze(0);
  at::Tensor is_never = keys == of(text_keys_, queries).unsqueeze(1);  // right ones are the first texts
  if (texts.first < rows) {
    const int64_t right = std::min(texts.count, rows - texts.first);
    is_never.narrow(1, 0, right)
        .logical_or_(of(query_keys_, {texts.first, right}).unsqueeze(0) ==
                     of(query_keys_, queries).unsqueeze(1));
  }
  is_never.logical_and_(numbers(queries).unsqueeze(1) != numbers(texts).unsqueeze(0)).logical_or_(keys == 0);
  return (products(of(space.queries, queries), of(space.texts, texts)) / options_.temperature)
      .masked_fill_(is_never, kNever);
}

at::Tensor RankingLoss::begin(const at::Tensor& rows) {
  const at::NoGradGuard no_grad;
  const int64_t count = rows.size(0);
  const at::Tensor texts = texts_of(rows, width_), keys = keys_of(texts, width_);
  query_keys_ = keys.select(1, 0).contiguous();
  text_keys_ = by_slots(keys, 1);
  losses_ = at::zeros({count}, rows.options());
  spaces_.clear();
  for (const int64_t dimensions : options_.dimensions) {
    const at::Tensor vectors = of_length_1(texts.narrow(2, 0, dimensions));
    Space space{dimensions, vectors.select(1, 0).contiguous(), by_slots(vectors, 1).contiguous(), {}, {}};
    std::vector<at::Tensor> of_queries, of_texts, right;
    for (int64_t first = 0; first < count; first += kBlock) {
      const Range block{first, std::min(kBlock, count - first)};
      const at::Tensor by_query = logits(space, block, {0, text_keys_.size(0)});
      of_queries.push_back(at::logsumexp(by_query, 1));
      right.push_back(by_query.narrow(1, first, block.count).diagonal());
      if (options_.is_symmetric) of_texts.push_back(at::logsumexp(logits(space, {0, count}, block), 0));
    }
    space.of_queries = at::cat(of_queries);
    at::Tensor sums = space.of_queries;
    if (options_.is_symmetric) {
      space.of_texts = at::cat(of_texts);
      sums = (sums + space.of_texts) / 2;
    }
    losses_ += sums - at::cat(right);
    spaces_.push_back(std::move(space));
  }
  return losses_;
}

int64_t RankingLoss::nearest() const {
  const at::NoGradGuard no_grad;
  const int64_t rows = query_keys_.size(0);
  int64_t count = 0;
  for (int64_t first = 0; first < rows; first += kBlock) {
    const Range block{first, std::min(kBlock, rows - first)};
    const at::Tensor by_query = logits(spaces_.front(), block, {0, text_keys_.size(0)}),
                     right = by_query.narrow(1, first, block.count).diagonal().unsqueeze(1);
    count += ((by_query >= right).sum(1) == 1).sum().item<int64_t>();
  }
  return count;
}

RowLoss RankingLoss::part(const at::Tensor& rows, int64_t first, int64_t count) const {
  const double weight = (options_.is_symmetric ? 0.5 : 1) / options_.temperature;
  const int64_t all = rows.size(0);
  at::Tensor gradient = at::zeros({count, rows.size(1)}, rows.options());
  for (const Space& space : spaces_) {
    // With autograd: from the rows to vectors of length 1. The rest by the softmaxes' own gradients.
    const at::AutoGradMode on(true);
    const at::Tensor own = rows.narrow(0, first, count).detach().requires_grad_();
    const at::Tensor vectors = of_length_1(texts_of(own, width_).narrow(2, 0, space.dimensions));
    at::Tensor of_vectors;
    {
      const at::NoGradGuard no_grad;
      of_vectors = at::zeros_like(vectors);
      for (int64_t at = 0; at < count; at += kBlock) {
        const Range block{first + at, std::min(kBlock, count - at)};
        const auto add = [&](int64_t slot, const at::Tensor& shares, const at::Tensor& to) {
          of_vectors.narrow(0, at, block.count).select(1, slot).add_(transformer::gemm(shares, to), weight);
        };
        const auto add_right = [&](int64_t slot, const at::Tensor& to) {
          of_vectors.narrow(0, at, block.count)
              .select(1, slot)
              .sub_(to.narrow(0, block.first, block.count), options_.is_symmetric ? 2 * weight : weight);
        };
        const at::Tensor by_query = logits(space, block, {0, text_keys_.size(0)});
        add(0, (by_query - space.of_queries.narrow(0, block.first, block.count).unsqueeze(1)).exp_(),
            space.texts);
        if (options_.is_symmetric)
          add(0, (by_query.narrow(1, 0, all) - space.of_texts.unsqueeze(0)).exp_(),
              space.texts.narrow(0, 0, all));
        add_right(0, space.texts);
        for (int64_t slot = 0; slot <= negatives_; ++slot) {
          const Range texts{slot * all + block.first, block.count};
          const at::Tensor by_text = logits(space, {0, all}, texts).t();
          add(1 + slot, (by_text - space.of_queries.unsqueeze(0)).exp_(), space.queries);
          if (slot > 0) continue;
          if (options_.is_symmetric)
            add(1, (by_text - space.of_texts.narrow(0, block.first, block.count).unsqueeze(1)).exp_(),
                space.queries);
          add_right(1, space.queries);
        }
      }
    }
    gradient += torch::autograd::grad({vectors}, {own}, {of_vectors})[0];
  }
  return {losses_.narrow(0, first, count).sum(), gradient};
}

at::Tensor SimilarityLoss::losses(const at::Tensor& rows) const {
  const int64_t count = rows.size(0);
  const std::vector<int64_t> whole{width_};
  const at::Tensor score = rows.select(1, 2 * width_);
  const at::Tensor is_lower = score.unsqueeze(0) < score.unsqueeze(1);  // (higher, lower)
  at::Tensor sum = at::zeros({}, rows.options());
  for (const int64_t dimensions : options_.dimensions.empty() ? whole : options_.dimensions) {
    const at::Tensor cosine =
        (of_length_1(rows.narrow(1, 0, dimensions)) * of_length_1(rows.narrow(1, width_, dimensions)))
            .sum(1) /
        options_.temperature;
    // By rows first: a sum over all at once would depend on the number of threads.
    const at::Tensor by_rows = at::logsumexp(
        (cosine.unsqueeze(0) - cosine.unsqueeze(1)).masked_fill(is_lower.logical_not(), kNever), 1);
    sum = sum + at::logsumexp(at::cat({at::zeros({1}, rows.options()), by_rows}), 0);
  }
  return sum.expand({count});
}

}  // namespace pipeline::sentence_encoder
