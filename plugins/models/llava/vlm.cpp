#include "plugins/models/llava/vlm.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "hugging_face/config_file.hpp"
#include "transformer/gelu.hpp"

namespace pipeline::llava {

void VlmConfig::check() const {
  vision.check();
  language.check();
  hugging_face::check_range("projector_layers", projector_layers, 1, 2);
  const int64_t side = vision.side();
  hugging_face::check_range("scale_factor", scale_factor, 1, side);
  if (side % scale_factor != 0)
    fail_with(PL_ERROR_CONFIG, "scale_factor = ", scale_factor, ": must divide the ", side,
              " patches along a picture's side");
  if (vision.num_register_tokens > 0 && (scale_factor > 1 || !grids.empty()))
    fail_with(PL_ERROR_CONFIG, "num_register_tokens = ", vision.num_register_tokens,
              ": registers have no place in a grid: must be 0 with grids or a scale_factor");
  for (const images::Grid& grid : grids) {
    constexpr int64_t kMost = 64;
    hugging_face::check_range("rows of a grid", grid.rows, 1, kMost);
    hugging_face::check_range("columns of a grid", grid.columns, 1, kMost);
  }
}

Vlm::Vlm(const VlmConfig& config, ParameterRegistry::Rule rule) : config_(config) {
  config_.check();
  registry_->set_rule(std::move(rule));
  vision_.emplace(config_.vision, language::ParameterPlace{registry_, "vision.", 0});
  const uint32_t unit = projector_unit();
  language_.emplace(config_.language, language::ParameterPlace{registry_, "language.", unit + 1},
                    config_.lora);
  const int64_t factor = config_.scale_factor, from = config_.vision.hidden_size * factor * factor,
                to = language_->width();
  const double deviation = config_.vision.initializer_range;
  const auto add = [&](const std::string& name, int64_t in) -> transformer::Linear {
    if (config_.projector_bias) return transformer::add_linear(*registry_, name, in, to, unit, deviation);
    return {transformer::add_matrix(*registry_, name, in, to, unit, deviation), {}};
  };
  first_ = add("projector.linear_1", from);
  if (config_.projector_layers == 2) second_ = add("projector.linear_2", to);
  if (!config_.grids.empty())
    newline_ =
        registry_->add({.name = "projector.image_newline", .shape = {to}, .decay = false, .unit = unit},
                       normal(1 / std::sqrt(static_cast<double>(to))));
}

// Makes each factor x factor patches of a square one row, row by row of them: pixel_shuffle() of
// transformers' modeling_idefics3.py.
at::Tensor Vlm::joined(const at::Tensor& features) const {
  const int64_t factor = config_.scale_factor, width = features.size(1),
                side = config_.vision.side() / factor;
  if (factor == 1) return features;
  return features.view({-1, side, factor, side, factor, width})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({-1, factor * factor * width});
}

at::Tensor Vlm::projected(const at::Tensor& features) const {
  const at::Tensor x = transformer::linear(joined(features), first_);
  if (config_.projector_layers == 1) return x;
  return transformer::linear(transformer::gelu(x, transformer::Gelu::kExact), second_);
}

at::Tensor Vlm::arranged(const at::Tensor& projected, const VlmBatch& batch) const {
  if (!batch.arranged.defined()) return projected;
  const at::Tensor newlines = newline_.to(projected.scalar_type()).expand({batch.newlines, -1});
  return at::cat({projected, newlines}).index_select(0, batch.arranged);
}

bool Vlm::vision_is_frozen() const {
  return std::none_of(registry_->begin(), registry_->end(), [](const auto& parameter) {
    return parameter.name.starts_with("vision.") && parameter.trainable;
  });
}

// The cache's features are those of these weights, which a strategy may have in place within units alone.
at::Tensor Vlm::encoded(const at::Tensor& pixels, const std::vector<vision::PatchGrid>& patches,
                        const ForwardPass& pass) const {
  if (cache_->is_open()) return vision_->features(pixels, pass, patches);
  const auto hasher = std::make_shared<files::Hasher128>();
  const at::Tensor result = vision_->features(pixels, pass, patches, [hasher](const Tensors& parameters) {
    for (const at::Tensor& parameter : parameters) {
      const at::Tensor host = parameter.detach().cpu().contiguous();
      hasher->update({static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
    }
  });
  cache_->open(hasher->finish());
  return result;
}

// The vision encoder's features of the squares: (squares * patches, hidden_size).
at::Tensor Vlm::seen(const VlmBatch& batch, const ForwardPass& pass) const {
  if (batch.cached.empty()) return vision_->features(batch.pixels, pass, batch.patches);
  std::vector<at::Tensor> found;
  std::vector<size_t> missing;
  std::vector<int64_t> rows;
  std::vector<vision::PatchGrid> patches;
  for (const VlmBatch::Cached& one : batch.cached) {
    // One that was not there when the batch was made may be by now.
    found.push_back(one.place < 0 ? batch.known.narrow(0, -one.place - 1, one.squares)
                                  : cache_->find(one.key).squares);
    if (found.back().defined()) continue;
    missing.push_back(found.size() - 1);
    if (!batch.patches.empty()) patches.push_back(batch.patches[missing.back()]);
    for (int64_t square = 0; square < one.squares; ++square) rows.push_back(one.place + square);
  }
  cache_->count(found.size() - missing.size(), missing.size());
  if (missing.empty()) {
    vision_->skip(pass);  // a strategy counts on every unit
  } else {
    const auto chosen = batch.pixels.index_select(0, transformer::to_device(rows, batch.pixels.device()));
    const at::Tensor made =
        encoded(chosen, patches, pass).unflatten(0, {static_cast<int64_t>(rows.size()), -1});
    int64_t first = 0;
    for (const size_t i : missing) {
      const VlmBatch::Cached& one = batch.cached[i];
      found[i] = made.narrow(0, first, one.squares);
      first += one.squares;
      cache_->put(one.key, {.squares = found[i], .width = one.width, .height = one.height});
    }
  }
  for (at::Tensor& features : found)
    features = transformer::to_device(features, batch.packed.tokens.device());
  return at::cat(found).flatten(0, 1);
}

at::Tensor Vlm::features(const VlmBatch& batch, const ForwardPass& pass) const {
  return pass.run_once(
      projector_unit(),
      [&](const Tensors& in) {
        return Tensors{arranged(projected(in[0].to(pass.compute)), batch).to(in[0].scalar_type())};
      },
      {seen(batch, pass)})[0];
}

// A micro-batch without pictures passes through the same units, with no rows.
transformer::Inserted Vlm::inserted(const VlmBatch& batch, const ForwardPass& pass) const {
  if (batch.has_pictures()) {
    const at::Tensor all = features(batch, pass);
    return {batch.picture_rows, batch.shown.defined() ? all.index_select(0, batch.shown) : all};
  }
  at::Tensor seen = vision_->skip(pass);
  if (pass.units != nullptr) seen = pass.units->skip(projector_unit(), seen, first_.weight.requires_grad());
  return {at::empty({0}, batch.packed.tokens.options()), seen.view({0, language_->width()})};
}

LossSum Vlm::loss(const VlmBatch& batch, const ForwardPass& pass,
                  const language::LossDetails& details) const {
  return language_->loss(batch.packed, pass, details, inserted(batch, pass));
}

at::Tensor Vlm::logits(const VlmBatch& batch, const at::Tensor& rows, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  return language_->logits(batch.packed, rows, pass.compute, inserted(batch, pass));
}

double Vlm::flops(const VlmBatch& batch) const {
  const int64_t computed = batch.pixels.defined() ? batch.pixels.size(0) : 0,
                squares = computed + (batch.known.defined() ? batch.known.size(0) : 0);
  const auto rows = static_cast<double>(squares * config_.rows_of_square());
  const auto from = static_cast<double>(config_.vision.hidden_size * config_.scale_factor *
                                        config_.scale_factor),
             to = static_cast<double>(language_->width());
  const double projector = 6 * rows * (from * to + (config_.projector_layers == 2 ? to * to : 0));
  std::vector<vision::PatchGrid> patches;
  for (size_t i = 0; i < batch.patches.size(); ++i)
    if (batch.cached.empty() || batch.cached[i].place >= 0) patches.push_back(batch.patches[i]);
  return vision_->flops(computed, patches, !vision_is_frozen()) + projector + language_->flops(batch.packed);
}

}  // namespace pipeline::llava
