#include "plugins/models/two_towers/two_towers.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>

#include "hugging_face/config_file.hpp"
#include "transformer/attention.hpp"
#include "transformer/blocks.hpp"

namespace pipeline::two_towers {
namespace {

at::Tensor normalised(const at::Tensor& x) { return x / x.norm(2, -1, /*keepdim=*/true); }

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
                                        encoder::gelu_named(config_.vision.hidden_act));
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

}  // namespace pipeline::two_towers
