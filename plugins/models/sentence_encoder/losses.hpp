// What vectors of texts learn from, over all samples of a step.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/global_loss.hpp>

#include "files/hash128.hpp"

namespace pipeline::sentence_encoder {

// A text in a row of the step's outputs: its vector (D), and three columns that are equal for equal texts.
constexpr int64_t kTextKey = 3;
// Zeros stand for a text that is not there.
void write_key(const files::Hash128& text, float* key);

struct LossOptions {
  double temperature = 0.05;        // divides cosines
  bool is_symmetric = false;        // the mean of finding a query's text, and a text's query
  std::vector<int64_t> dimensions;  // Matryoshka (Kusupati et al., arXiv:2205.13147): the losses of vectors
                                    // that are cut to so many columns add up; empty: of whole ones
};

// InfoNCE (van den Oord et al., arXiv:1807.03748) with the other texts of the step as negatives, and those
// that a sample names. A row is a query, the text that belongs to it, and as many negatives as there can be.
// A text equal to the right one is no negative, nor is one that belongs to an equal query. In float32; the
// similarities of a block of rows are in memory at a time.
class RankingLoss {
 public:
  RankingLoss(int64_t width, int64_t negatives, LossOptions options);

  int64_t columns() const { return (2 + negatives_) * (width_ + kTextKey); }

  // begin() comes first, once for the same rows (G, columns): (G), the loss of each.
  at::Tensor begin(const at::Tensor& rows);
  // After begin(): how many queries have a right text that is nearer than all others. By whole vectors, or
  // the first size of them.
  int64_t nearest() const;
  // Of some of them, and the gradient in these of all rows' losses.
  RowLoss part(const at::Tensor& rows, int64_t first, int64_t count) const;

 private:
  // Of one size of vectors: texts are all right ones, then all negatives.
  struct Space {
    int64_t dimensions;
    at::Tensor queries, texts;        // (G, d), (M, d), of length 1
    at::Tensor of_queries, of_texts;  // (G) logarithms of the softmaxes' sums; the latter where symmetric
  };
  struct Range {
    int64_t first, count;
  };
  at::Tensor logits(const Space& space, Range queries, Range texts) const;

  int64_t width_, negatives_;
  LossOptions options_;
  std::vector<Space> spaces_;
  at::Tensor query_keys_, text_keys_;  // (G), (M) int64; 0: not there
  at::Tensor losses_;
};

// CoSENT (Su, 2022): of two pairs the one with the higher score is to have the higher cosine. A row is a pair
// of texts, and its score (1). All rows have the same loss, log(1 + sum of exp((cosine of the lower - cosine
// of the higher) / temperature)) over all such pairs of pairs.
class SimilarityLoss {
 public:
  SimilarityLoss(int64_t width, LossOptions options) : width_(width), options_(std::move(options)) {}

  int64_t columns() const { return 2 * width_ + 1; }
  at::Tensor losses(const at::Tensor& rows) const;  // (G), differentiable

 private:
  int64_t width_;
  LossOptions options_;
};

}  // namespace pipeline::sentence_encoder
