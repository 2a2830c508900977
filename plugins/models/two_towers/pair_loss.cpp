#include "plugins/models/two_towers/pair_loss.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pipeline::two_towers {
namespace {

constexpr int64_t kBlock = 1024;  // rows whose logits are in memory at a time
constexpr float kNever = -1e9F;   // added to a logit: its softmax is 0

struct Columns {
  at::Tensor picture, bias, text, valid;  // (R, D), (R, 1), (R, D), (R, 1)

  explicit Columns(const at::Tensor& rows) {
    const int64_t width = (rows.size(1) - 2) / 2;
    picture = rows.narrow(1, 0, width);
    bias = rows.narrow(1, width, 1);
    text = rows.narrow(1, width + 1, width);
    valid = rows.narrow(1, 2 * width + 1, 1);
  }
  Columns part(int64_t first, int64_t count) const {
    Columns some = *this;
    for (at::Tensor* t : {&some.picture, &some.bias, &some.text, &some.valid})
      *t = t->narrow(0, first, count);
    return some;
  }
  at::Tensor never() const { return ((1 - valid) * kNever).t(); }  // (1, R): to the logits with these
};

// (some, all): of their pictures with all texts, and of their texts with all pictures.
at::Tensor picture_logits(const Columns& some, const Columns& all) {
  return at::mm(some.picture, all.text.t()) + some.bias;
}
at::Tensor text_logits(const Columns& some, const Columns& all) {
  return at::mm(some.text, all.picture.t()) + all.bias.t();
}

// 1 where row i of the block is row first + i of all, else -1.
at::Tensor signs(const at::Tensor& logits, int64_t first) {
  at::Tensor sign = -at::ones_like(logits);
  sign.narrow(1, first, logits.size(0)).diagonal().fill_(1);
  return sign;
}

template <class Work>
void by_blocks(int64_t first, int64_t count, Work&& work) {
  for (int64_t at = first; at < first + count; at += kBlock) work(at, std::min(kBlock, first + count - at));
}

}  // namespace

at::Tensor PairLoss::all(const at::Tensor& rows) const {
  const Columns c(rows);
  const at::Tensor logits = picture_logits(c, c), valid = c.valid.detach();
  if (kind_ == Kind::kSigmoid)
    return -(at::log_sigmoid(signs(logits.detach(), 0) * logits) * valid * valid.t()).sum(1);
  const at::Tensor never = c.never().detach();
  const at::Tensor losses =
      (at::logsumexp(logits + never, 1) + at::logsumexp(logits.t() + never, 1)) / 2 - logits.diagonal();
  return losses * valid.squeeze(1);
}

void PairLoss::begin(const at::Tensor& rows) {
  if (kind_ == Kind::kSigmoid) return;
  const at::NoGradGuard no_grad;
  const Columns all(rows);
  const at::Tensor never = all.never();
  std::vector<at::Tensor> of_picture, of_text;
  by_blocks(0, rows.size(0), [&](int64_t at, int64_t count) {
    const Columns some = all.part(at, count);
    of_picture.push_back(at::logsumexp(picture_logits(some, all) + never, 1));
    of_text.push_back(at::logsumexp(text_logits(some, all) + never, 1));
  });
  of_picture_ = at::cat(of_picture);
  of_text_ = at::cat(of_text);
}

namespace {

struct Gradient {
  at::Tensor sum, picture, bias, text;
};

// What a block's rows get: d of its own logits is (probability - target) of both softmaxes.
Gradient softmax_part(const Columns& some, const Columns& all, const at::Tensor& of_picture,
                      const at::Tensor& of_text, int64_t first) {
  const int64_t count = some.text.size(0);
  const at::Tensor never = all.never(), own_picture = of_picture.narrow(0, first, count).unsqueeze(1),
                   own_text = of_text.narrow(0, first, count).unsqueeze(1);
  // Once more among all pictures, and all texts, whose softmaxes have this row, too.
  const at::Tensor missing = some.valid == 0;  // whose own logits are in no softmax, and may be any
  const auto both = [&](const at::Tensor& logits, const at::Tensor& own, const at::Tensor& others) {
    return ((logits - own).exp_() + (logits - others.unsqueeze(0)).exp_()).masked_fill_(missing, 0) / 2;
  };
  const at::Tensor picture = both(picture_logits(some, all) + never, own_picture, of_text),
                   text = both(text_logits(some, all) + never, own_text, of_picture);
  const at::Tensor own = (some.picture * some.text).sum(1, true) + some.bias;
  return {(((own_picture + own_text) / 2 - own) * some.valid).sum(),
          at::mm(picture, all.text) - some.text * some.valid, picture.sum(1, true) - some.valid,
          at::mm(text, all.picture) - some.picture * some.valid};
}

Gradient sigmoid_part(const Columns& some, const Columns& all, int64_t first) {
  // The slopes of -log sigmoid(z l): -z sigmoid(-z l).
  const auto slopes = [&](const at::Tensor& sign, const at::Tensor& logits) {
    return -sign * at::sigmoid(-sign * logits) * some.valid * all.valid.t();
  };
  const at::Tensor logits = picture_logits(some, all), sign = signs(logits, first);
  const at::Tensor picture = slopes(sign, logits), text = slopes(sign, text_logits(some, all));
  return {-(at::log_sigmoid(sign * logits) * some.valid * all.valid.t()).sum(), at::mm(picture, all.text),
          picture.sum(1, true), at::mm(text, all.picture)};
}

}  // namespace

RowLoss PairLoss::part(const at::Tensor& rows, int64_t first, int64_t count) const {
  const at::NoGradGuard no_grad;
  const Columns all(rows);
  at::Tensor sum = at::zeros({}, rows.options());
  std::vector<at::Tensor> gradients;
  by_blocks(first, count, [&](int64_t at, int64_t in_block) {
    const Columns some = all.part(at, in_block);
    const Gradient g = kind_ == Kind::kSoftmax ? softmax_part(some, all, of_picture_, of_text_, at)
                                               : sigmoid_part(some, all, at);
    sum += g.sum;
    gradients.push_back(at::cat({g.picture, g.bias, g.text, at::zeros_like(some.valid)}, 1));
  });
  return {sum, at::cat(gradients)};
}

}  // namespace pipeline::two_towers
