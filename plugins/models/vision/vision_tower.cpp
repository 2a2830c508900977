#include "plugins/models/vision/vision_tower.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "hugging_face/config_file.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::vision {
namespace {

using transformer::Gelu;

Gelu gelu_named(const std::string& name) {
  return name == "quick_gelu" ? Gelu::kQuick : name == "gelu" ? Gelu::kExact : Gelu::kTanh;
}

// (B, 3, S, S) -> (B * patches, 3 p p): rows of a picture's patches from the top left; within one, channel by
// channel, row by row.
at::Tensor patches_of(const at::Tensor& pixels, int64_t patch) {
  const int64_t count = pixels.size(0), channels = pixels.size(1), side = pixels.size(2) / patch;
  const at::Tensor whole = pixels.narrow(2, 0, side * patch).narrow(3, 0, side * patch);
  return whole.reshape({count, channels, side, patch, side, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({count * side * side, channels * patch * patch});
}

// The place of each of a side's patches among its positions. Of a whole square it would be its own, but for
// the rounding of the fractions that Idefics3VisionEmbeddings in transformers compares, which is repeated
// here.
std::vector<int64_t> places_along(int64_t patches) {
  const double step = 1.0 / static_cast<double>(patches);
  const float share = 1.0f / static_cast<float>(patches);
  std::vector<float> bounds;
  for (int64_t i = 0; step + static_cast<double>(i) * step < 1.0; ++i)
    bounds.push_back(static_cast<float>(step + static_cast<double>(i) * step));
  std::vector<int64_t> places;
  for (int64_t i = 0; i < patches; ++i) {
    const float at = std::min(static_cast<float>(i) * share, static_cast<float>(1.0 - 1e-6));
    places.push_back(std::upper_bound(bounds.begin(), bounds.end(), at) - bounds.begin());
  }
  return places;
}

std::vector<int64_t> places_of(int64_t patches) {
  const std::vector<int64_t> along = places_along(patches);
  std::vector<int64_t> places;
  for (const int64_t row : along)
    for (const int64_t column : along) places.push_back(row * patches + column);
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] != static_cast<int64_t>(i)) return places;
  return {};
}

}  // namespace

void Config::check() const {
  using namespace hugging_face;
  constexpr int64_t kMostPixels = 1 << 14, kMostWidth = 1 << 20, kMostLayers = 1 << 12;
  if (kind != "clip" && kind != "siglip" && kind != "idefics3")
    fail_with(PL_ERROR_CONFIG, "kind = \"", kind, "\": must be \"clip\", \"siglip\" or \"idefics3\"");
  check_range("image_size", image_size, 1, kMostPixels);
  check_range("patch_size", patch_size, 1, kMostPixels);
  check_range("hidden_size", hidden_size, 1, kMostWidth);
  check_range("num_hidden_layers", num_hidden_layers, 1, kMostLayers);
  check_range("num_attention_heads", num_attention_heads, 1, kMostWidth);
  check_range("intermediate_size", intermediate_size, 1, kMostWidth);
  check_positive("layer_norm_eps", layer_norm_eps);
  check_positive("initializer_range", initializer_range);
  if (image_size < patch_size)
    fail_with(PL_ERROR_CONFIG, "patch_size = ", patch_size, ": must not exceed image_size (", image_size,
              ")");
  if (hidden_size % num_attention_heads != 0)
    fail_with(PL_ERROR_CONFIG, "num_attention_heads = ", num_attention_heads, ": must divide hidden_size (",
              hidden_size, ")");
  if (hidden_act != "quick_gelu" && hidden_act != "gelu" && hidden_act != "gelu_pytorch_tanh")
    fail_with(PL_ERROR_CONFIG, "hidden_act = \"", hidden_act,
              "\": must be \"quick_gelu\", \"gelu\" or \"gelu_pytorch_tanh\"");
}

Tower::Tower(const Config& config, language::ParameterPlace place)
    : config_(config), place_(std::move(place)) {
  config_.check();
  ParameterRegistry& registry = *place_.registry;
  const int64_t width = config_.hidden_size;
  const double deviation = config_.initializer_range;
  const uint32_t first = place_.first_unit;
  const auto name = [&](const std::string& plain) { return place_.prefix + plain; };
  const auto norm = [&](const char* plain) {
    return transformer::add_norm(registry, name(plain), width, first, config_.layer_norm_eps);
  };
  const int64_t inputs = 3 * config_.patch_size * config_.patch_size;
  if (config_.is_clip())
    class_ = registry.add({.name = name("embeddings.class_embedding"), .shape = {width}, .unit = first},
                          normal(deviation));
  patches_.weight = registry.add(
      {.name = name("embeddings.patch_embedding.weight"), .shape = {inputs, width}, .unit = first},
      normal(deviation));
  if (!config_.is_clip())
    patches_.bias = registry.add(
        {.name = name("embeddings.patch_embedding.bias"), .shape = {width}, .decay = false, .unit = first},
        constant(0));
  positions_ = registry.add({.name = name("embeddings.position_embedding.weight"),
                             .shape = {config_.tokens(), width},
                             .unit = first},
                            normal(deviation));
  if (config_.is_clip()) first_norm_ = norm("pre_layrnorm");  // as Hugging Face spells it

  const transformer::LayerShape shape{.width = width,
                                      .inner = config_.intermediate_size,
                                      .epsilon = config_.layer_norm_eps,
                                      .deviation = deviation,
                                      .into_residual = deviation};
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    layers_.push_back(transformer::add_layer(
        registry, name("encoder.layers." + std::to_string(i)), first + 1 + static_cast<uint32_t>(i), shape,
        {"layer_norm1", "self_attn.qkv", "self_attn.out_proj", "layer_norm2", "mlp.fc1", "mlp.fc2"}));
  }
  if (!config_.has_last_norm()) return;
  last_norm_ = transformer::add_norm(registry, name("post_layernorm"), width, first + units() - 1,
                                     config_.layer_norm_eps);
  places_ = places_of(config_.image_size / config_.patch_size);
}

at::Tensor Tower::embedded(const at::Tensor& pixels, at::ScalarType compute) const {
  const int64_t pictures = pixels.size(0), width = config_.hidden_size, patches = config_.patches();
  const at::Tensor place =
      places_.empty() ? positions_.narrow(0, config_.tokens() - patches, patches)
                      : positions_.index_select(0, transformer::to_device(places_, positions_.device()));
  const at::Tensor x = transformer::linear_residual(
      patches_of(pixels, config_.patch_size).to(compute), patches_,
      place.unsqueeze(0).expand({pictures, patches, width}).reshape({pictures * patches, width}), {});
  if (!config_.is_clip()) return x;
  const at::Tensor first = (class_ + positions_.select(0, 0)).expand({pictures, 1, width});
  const at::Tensor whole = at::cat({first, x.view({pictures, patches, width})}, 1).view({-1, width});
  return at::layer_norm(whole, {width}, first_norm_.weight, first_norm_.bias, first_norm_.eps);
}

at::Tensor Tower::features(const at::Tensor& pixels, const ForwardPass& pass,
                           const std::function<void(const Tensors& parameters)>& in_unit) const {
  return rows(pixels, config_.tokens() - config_.patches(), config_.patches(), pass, in_unit);
}

at::Tensor Tower::class_features(const at::Tensor& pixels, const ForwardPass& pass) const {
  return rows(pixels, 0, 1, pass, nullptr);
}

// Of the last layer, rows first ... first + count - 1 of each picture.
at::Tensor Tower::rows(const at::Tensor& pixels, int64_t first, int64_t count, const ForwardPass& pass,
                       const std::function<void(const Tensors& parameters)>& in_unit) const {
  const int64_t pictures = pixels.size(0), tokens = config_.tokens();
  transformer::Ragged rows;
  std::vector<int64_t> wanted;
  for (int64_t p = 0; p < pictures; ++p) {
    for (int64_t i = first; i < first + count; ++i) wanted.push_back(rows.rows() + i);
    rows.append(tokens);
  }
  const std::function<void(uint32_t)> enter = [in_unit, registry = place_.registry](uint32_t unit) {
    if (in_unit) in_unit(registry->of_unit(unit));
  };
  transformer::LayerPass layers;
  layers.layout = {.queries = rows, .keys = rows, .heads = config_.num_attention_heads, .causal = false};
  layers.first_unit = place_.first_unit + 1;
  layers.gelu = gelu_named(config_.hidden_act);
  layers.in_unit = enter;
  const at::Tensor x = pass.run_once(place_.first_unit,
                                     [&](const Tensors&) {
                                       enter(place_.first_unit);
                                       return Tensors{embedded(pixels, pass.compute)};
                                     },
                                     {})[0];
  const at::Tensor seen = transformer::run_layers(layers_, x, layers, pass, *place_.registry, wanted);
  if (!config_.has_last_norm()) return seen;
  const uint32_t last = place_.first_unit + units() - 1;
  return pass.run_once(last,
                       [&](const Tensors& in) {
                         enter(last);
                         return Tensors{at::layer_norm(in[0], {config_.hidden_size}, last_norm_.weight,
                                                       last_norm_.bias, last_norm_.eps)};
                       },
                       {seen})[0];
}

bool Tower::is_trainable(uint32_t unit) const {
  const auto& parameters = place_.registry->of_unit(unit);
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const at::Tensor& t) { return t.requires_grad(); });
}

at::Tensor Tower::skip(const ForwardPass& pass) const {
  at::Tensor seen = at::zeros({0}, positions_.options().requires_grad(false));
  if (pass.units == nullptr) return seen;
  for (uint32_t u = place_.first_unit; u < place_.first_unit + units(); ++u)
    seen = pass.units->skip(u, seen, is_trainable(u));
  return seen;
}

// Of the products that are computed: 2 m n k each, and twice that again for a backward pass.
double Tower::flops(int64_t pictures, bool with_backward) const {
  const auto rows = static_cast<double>(config_.tokens()), width = static_cast<double>(config_.hidden_size),
             inner = static_cast<double>(config_.intermediate_size);
  const double layer = rows * (8 * width * width + 4 * width * inner) + 4 * rows * rows * width;
  const double patches = 6 * rows * width * static_cast<double>(config_.patch_size * config_.patch_size);
  return static_cast<double>(pictures) * (with_backward ? 3 : 1) *
         (patches + static_cast<double>(layers_.size()) * layer);
}

}  // namespace pipeline::vision
