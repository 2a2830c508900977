#include "plugins/models/two_towers/two_towers.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "hugging_face/config_file.hpp"
#include "transformer/attention.hpp"
#include "transformer/blocks.hpp"
#include "transformer/gemm.hpp"

namespace pipeline::two_towers {
namespace {

at::Tensor normalised(const at::Tensor& x) { return x / x.norm(2, -1, /*keepdim=*/true); }

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

// x y^T. Our own product: its bits do not depend on the number of threads.
at::Tensor similar(const at::Tensor& x, const at::Tensor& y) {
  return transformer::linear(x, {.weight = y.t().contiguous(), .bias = {}});
}

// (some, all): of their pictures with all texts, and of their texts with all pictures.
at::Tensor picture_logits(const Columns& some, const Columns& all) {
  return similar(some.picture, all.text) + some.bias;
}
at::Tensor text_logits(const Columns& some, const Columns& all) {
  return similar(some.text, all.picture) + all.bias.t();
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

void TwoTowersConfig::check() const {
  constexpr int64_t kMostWidth = 1 << 20;
  vision.check();
  encoder::text_tower(is_clip()).check(text);
  hugging_face::check_range("projection_dim", projection_dim, 1, kMostWidth);
  if (!is_clip() && projection_dim != vision.hidden_size)
    fail_with(PL_ERROR_CONFIG, "projection_dim = ", projection_dim, ": SigLIP's is vision.hidden_size (",
              vision.hidden_size, ")");
}

TwoTowers::TwoTowers(const TwoTowersConfig& config, ParameterRegistry::Rule rule) : config_(config) {
  config_.check();
  registry_->set_rule(std::move(rule));
  const bool is_clip = config_.is_clip();
  vision_.emplace(config_.vision, language::ParameterPlace{registry_, "vision_model.", 0});
  picture_unit_ = vision_->units();
  add_picture_head();
  text_.emplace(encoder::text_tower(is_clip), config_.text, *registry_, "text_model.", picture_unit_ + 1);
  text_unit_ = picture_unit_ + 1 + text_->units();
  const int64_t width = config_.text.hidden_size;
  const double deviation = config_.text.initializer_range;
  text_norm_ = transformer::add_norm(*registry_, "text_model.final_layer_norm", width, text_unit_,
                                     config_.text.layer_norm_eps);
  text_head_ =
      is_clip ? transformer::Linear{transformer::add_matrix(*registry_, "text_projection", width,
                                                            config_.projection_dim, text_unit_, deviation),
                                    {}}
              : transformer::add_linear(*registry_, "text_model.head", width, config_.projection_dim,
                                        text_unit_, deviation);
  const auto number = [&](const char* name, double value) {
    return registry_->add({.name = name,
                           .shape = is_clip ? std::vector<int64_t>{} : std::vector<int64_t>{1},
                           .decay = false,
                           .unit = picture_unit_},
                          constant(value));
  };
  scale_ = number("logit_scale", config_.logit_scale);
  if (!is_clip) bias_ = number("logit_bias", config_.logit_bias);
}

void TwoTowers::add_picture_head() {
  const vision::Config& vision = config_.vision;
  const int64_t width = vision.hidden_size;
  const double deviation = vision.initializer_range;
  const auto norm = [&](const std::string& name) {
    return transformer::add_norm(*registry_, "vision_model." + name, width, picture_unit_,
                                 vision.layer_norm_eps);
  };
  const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    return transformer::add_linear(*registry_, "vision_model.head." + name, in, out, picture_unit_,
                                   deviation);
  };
  picture_.norm = norm("post_layernorm");
  if (config_.is_clip()) {
    picture_.projection = transformer::add_matrix(*registry_, "visual_projection", width,
                                                  config_.projection_dim, picture_unit_, deviation);
    return;
  }
  picture_.probe = registry_->add(
      {.name = "vision_model.head.probe", .shape = {1, 1, width}, .unit = picture_unit_}, normal(deviation));
  picture_.in = linear("attention.in_proj", width, 3 * width);
  picture_.out = linear("attention.out_proj", width, width);
  picture_.mlp_norm = norm("head.layernorm");
  picture_.up = linear("mlp.fc1", width, vision.intermediate_size);
  picture_.down = linear("mlp.fc2", vision.intermediate_size, width);
}

// What a picture's head reads: CLIP's class token, SigLIP's patches.
at::Tensor TwoTowers::picture_states(const at::Tensor& pixels, const ForwardPass& pass) const {
  return config_.is_clip() ? vision_->class_features(pixels, pass) : vision_->features(pixels, pass);
}

// SigLIP's: a learnt query attends to the patches, and a layer's second half follows.
at::Tensor TwoTowers::pooled(const at::Tensor& states, int64_t pictures, const ForwardPass& pass) const {
  const int64_t width = config_.vision.hidden_size, patches = config_.vision.tokens();
  transformer::AttentionLayout layout{.heads = config_.vision.num_attention_heads, .causal = false};
  for (int64_t p = 0; p < pictures; ++p) {
    layout.queries.append(1);
    layout.keys.append(patches);
  }
  const at::Tensor kv = transformer::norm_linear(
      states, picture_.norm, transformer::columns(picture_.in, width, 2 * width), pass.compute);
  const at::Tensor q = transformer::linear(picture_.probe.view({1, width}).to(pass.compute),
                                           transformer::columns(picture_.in, 0, width))
                           .repeat({pictures, 1});
  const at::Tensor h =
      transformer::ragged_attention(q, kv.narrow(1, 0, width), kv.narrow(1, width, width), layout);
  const at::Tensor x = transformer::linear(h.to(pass.compute), picture_.out).to(states.scalar_type());
  return transformer::norm_mlp_residual(x, picture_.mlp_norm, picture_.up, picture_.down, {}, pass.compute,
                                        transformer::gelu_named(config_.vision.hidden_act));
}

at::Tensor TwoTowers::projected(const at::Tensor& states, int64_t pictures, const ForwardPass& pass) const {
  const at::Tensor x = config_.is_clip() ? transformer::norm_linear(states, picture_.norm,
                                                                    {picture_.projection, {}}, pass.compute)
                                         : pooled(states, pictures, pass);
  return normalised(x.to(at::kFloat));
}

// The similarities' factor. CLIP's authors cut its logarithm off after each step, which no strategy's memory
// allows; here its gradient passes the limit, so that it comes back when a smaller one is better.
at::Tensor TwoTowers::scale() const {
  const at::Tensor log = scale_.to(at::kFloat);
  if (config_.max_logit_scale <= 0) return log.exp();
  return (log + (log.clamp_max(config_.max_logit_scale) - log).detach()).exp();
}

void TwoTowers::limit_scale() {
  const at::NoGradGuard no_grad;
  if (config_.max_logit_scale > 0) scale_.clamp_max_(config_.max_logit_scale);
}

at::Tensor TwoTowers::text_features(const PairBatch& batch, const ForwardPass& pass) const {
  const at::Tensor rows = text_->last_rows(batch.texts, pass);
  return pass.run_once(
      text_unit_,
      [&](const Tensors& in) {
        return Tensors{
            normalised(transformer::norm_linear(in[0], text_norm_, text_head_, pass.compute).to(at::kFloat))};
      },
      {rows})[0];
}

Embedded TwoTowers::embedded(const PairBatch& batch, const ForwardPass& pass) const {
  const at::Tensor states = picture_states(batch.pixels, pass);
  const at::Tensor pictures = pass.run_once(
      picture_unit_, [&](const Tensors& in) { return Tensors{projected(in[0], batch.pixels.size(0), pass)}; },
      {states})[0];
  return {pictures, text_features(batch, pass)};
}

at::Tensor TwoTowers::scaled(const PairBatch& batch, const ForwardPass& pass) const {
  const int64_t pictures = batch.pixels.size(0);
  const at::Tensor states = picture_states(batch.pixels, pass);
  const at::Tensor left = pass.run_once(picture_unit_,
                                        [&](const Tensors& in) {
                                          const at::Tensor x = projected(in[0], pictures, pass) * scale();
                                          const at::Tensor bias =
                                              bias_.defined() ? bias_.to(at::kFloat).expand({pictures, 1})
                                                              : at::zeros({pictures, 1}, x.options());
                                          return Tensors{at::cat({x, bias}, 1)};
                                        },
                                        {states})[0];
  return at::cat({left, text_features(batch, pass)}, 1);
}

double TwoTowers::flops(const PairBatch& batch) const {
  return vision_->flops(batch.pixels.size(0), {}, true) + text_->flops(batch.texts.sequences);
}

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
          transformer::gemm(picture, all.text) - some.text * some.valid, picture.sum(1, true) - some.valid,
          transformer::gemm(text, all.picture) - some.picture * some.valid};
}

Gradient sigmoid_part(const Columns& some, const Columns& all, int64_t first) {
  // The slopes of -log sigmoid(z l): -z sigmoid(-z l).
  const auto slopes = [&](const at::Tensor& sign, const at::Tensor& logits) {
    return -sign * at::sigmoid(-sign * logits) * some.valid * all.valid.t();
  };
  const at::Tensor logits = picture_logits(some, all), sign = signs(logits, first);
  const at::Tensor picture = slopes(sign, logits), text = slopes(sign, text_logits(some, all));
  return {-(at::log_sigmoid(sign * logits) * some.valid * all.valid.t()).sum(1).sum(),
          transformer::gemm(picture, all.text), picture.sum(1, true), transformer::gemm(text, all.picture)};
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
