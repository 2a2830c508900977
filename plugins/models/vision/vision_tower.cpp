#include "plugins/models/vision/vision_tower.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "hugging_face/config_file.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::vision {
namespace {

constexpr int64_t kMostPixels = 1 << 14, kMostWidth = 1 << 20, kMostLayers = 1 << 12;

// (B, 3, S, S) -> (B * patches, 3 p p): rows of a picture's patches from the top left; within one, channel by
// channel, row by row, or in NaFlex pixel by pixel.
at::Tensor patches_of(const at::Tensor& pixels, const Config& config) {
  const int64_t count = pixels.size(0), side = config.side(), patch = config.patch_size;
  if (config.is_flexible()) return pixels.permute({0, 2, 3, 1}).reshape({count, -1});
  const at::Tensor whole = pixels.narrow(2, 0, side * patch).narrow(3, 0, side * patch);
  return whole.reshape({count, 3, side, patch, side, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({count * side * side, 3 * patch * patch});
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

// The cubic convolution of Keys (1981), at a distance. `sharpness`: torch's, -0.75, and with antialias
// Pillow's, -0.5.
double cubic(double x, double sharpness) {
  x = std::abs(x);
  if (x < 1) return ((sharpness + 2) * x - (sharpness + 3)) * x * x + 1;
  return x < 2 ? ((sharpness * x - 5 * sharpness) * x + 8 * sharpness) * x - 4 * sharpness : 0;
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// (to, from): what each of `to` places along a side takes of the `from` that there are.
at::Tensor weights(int64_t from, int64_t to, Interpolation how) {
  at::Tensor matrix = at::zeros({to, from}, at::kFloat);
  auto values = matrix.accessor<float, 2>();
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    if (how == Interpolation::kBicubic) {
      const double at = centre - 0.5;
      const auto first = static_cast<int64_t>(std::floor(at)) - 1;
      for (int64_t j = first; j < first + 4; ++j)  // beyond the edge its last one stands for all
        values[i][std::clamp<int64_t>(j, 0, from - 1)] +=
            static_cast<float>(cubic(at - static_cast<double>(j), -0.75));
      continue;
    }
    const bool is_cubic = how == Interpolation::kSmoothBicubic;
    const double stretch = std::max(scale, 1.0), reach = (is_cubic ? 2 : 1) * stretch;
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(centre - reach + 0.5), 0),
                  end = std::min(static_cast<int64_t>(centre + reach + 0.5), from);
    const auto weight = [&](int64_t j) {
      const double distance = (static_cast<double>(j) - centre + 0.5) / stretch;
      return is_cubic ? cubic(distance, -0.5) : triangle(distance);
    };
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += weight(j);
    for (int64_t j = begin; j < end; ++j) values[i][j] = static_cast<float>(weight(j) / sum);
  }
  return matrix;
}

}  // namespace

const hugging_face::ModelFields<Config>& model_fields() {
  using Field = hugging_face::ModelField<Config>;
  static const hugging_face::ModelFields<Config> kFields{
      Field("image_size", &Config::image_size,
            "side of the square that a picture becomes; siglip2: of the one that has as many patches as "
            "there are positions")
          .range(1, kMostPixels)
          .unit("pixels"),
      Field("patch_size", &Config::patch_size,
            "side of a patch; what is left of a picture's side is not seen")
          .range(1, kMostPixels)
          .unit("pixels"),
      Field("hidden_size", &Config::hidden_size, "width").range(1, kMostWidth),
      Field("num_hidden_layers", &Config::num_hidden_layers, "layers").range(1, kMostLayers).not_compared(),
      Field("num_attention_heads", &Config::num_attention_heads, "attention heads").range(1, kMostWidth),
      Field("intermediate_size", &Config::intermediate_size, "width of the feed-forward layer")
          .range(1, kMostWidth),
      Field("hidden_act", &Config::hidden_act, "activation")
          .choices({"quick_gelu", "gelu", "gelu_pytorch_tanh"}),
      Field("layer_norm_eps", &Config::layer_norm_eps, "added to the variance").positive(),
      Field("initializer_range", &Config::initializer_range, "standard deviation of initial weights")
          .positive()
          .of_run(),
  };
  return kFields;
}

void Config::check() const {
  using namespace hugging_face;
  if (!is_clip() && kind != "siglip" && !has_last_norm() && !is_flexible() && !is_dino())
    fail_with(PL_ERROR_CONFIG, "kind = \"", kind,
              "\": must be \"clip\", \"siglip\", \"idefics3\", \"siglip2\" or \"dinov2\"");
  check_fields(model_fields(), *this);
  check_range("crop_size", crop_size, 0, kMostPixels);
  check_range("num_register_tokens", num_register_tokens, 0, is_dino() ? kMostWidth : 0);
  if (crop_size > 0 && !is_dino())
    fail_with(PL_ERROR_CONFIG, "crop_size = ", crop_size, ": is DINOv2's: must be 0 for kind = \"", kind,
              "\"");
  if (std::min(image_size, square()) < patch_size)
    fail_with(PL_ERROR_CONFIG, "patch_size = ", patch_size, ": must not exceed ",
              crop_size > 0 ? "crop_size (" : "image_size (", std::min(image_size, square()), ")");
  if (hidden_size % num_attention_heads != 0)
    fail_with(PL_ERROR_CONFIG, "num_attention_heads = ", num_attention_heads, ": must divide hidden_size (",
              hidden_size, ")");
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
  if (config_.has_class())
    class_ = registry.add({.name = name("embeddings.class_embedding"), .shape = {width}, .unit = first},
                          normal(deviation));
  patches_.weight = registry.add(
      {.name = name("embeddings.patch_embedding.weight"), .shape = {inputs, width}, .unit = first},
      normal(deviation));
  if (!config_.is_clip())
    patches_.bias = registry.add(
        {.name = name("embeddings.patch_embedding.bias"), .shape = {width}, .decay = false, .unit = first},
        constant(0));
  if (const int64_t registers = config_.num_register_tokens; registers > 0)
    registers_ =
        registry.add({.name = name("embeddings.register_tokens"), .shape = {registers, width}, .unit = first},
                     normal(deviation));
  positions_ = registry.add({.name = name("embeddings.position_embedding.weight"),
                             .shape = {config_.positions(), width},
                             .unit = first},
                            normal(deviation));
  if (config_.is_clip()) first_norm_ = norm("pre_layrnorm");  // as Hugging Face spells it

  const transformer::LayerShape shape{.width = width,
                                      .inner = config_.intermediate_size,
                                      .epsilon = config_.layer_norm_eps,
                                      .deviation = deviation,
                                      .into_residual = deviation};
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string layer = name("encoder.layers." + std::to_string(i));
    const uint32_t unit = first + 1 + static_cast<uint32_t>(i);
    layers_.push_back(transformer::add_layer(
        registry, layer, unit, shape,
        {"layer_norm1", "self_attn.qkv", "self_attn.out_proj", "layer_norm2", "mlp.fc1", "mlp.fc2"}));
    if (!config_.is_dino()) continue;
    const auto scale = [&](const char* plain) {
      return registry.add({.name = layer + plain, .shape = {width}, .decay = false, .unit = unit},
                          constant(1));
    };
    layers_.back().attention_scale = scale(".layer_scale1.lambda1");
    layers_.back().mlp_scale = scale(".layer_scale2.lambda1");
  }
  if (!config_.has_last_norm()) return;
  last_norm_ = transformer::add_norm(registry, name("post_layernorm"), width, first + units() - 1,
                                     config_.layer_norm_eps);
  places_ = places_of(config_.image_size / config_.patch_size);
}

// The positions of all patches: (squares * patches, C).
at::Tensor Tower::places(int64_t squares, const std::vector<PatchGrid>& grids) const {
  const int64_t width = config_.hidden_size, patches = config_.patches(),
                before = config_.has_class() ? 1 : 0;
  const at::Tensor learnt = positions_.narrow(0, before, config_.positions() - before);
  if (config_.is_flexible()) {
    std::vector<at::Tensor> fit;
    for (const PatchGrid& grid : grids) fit.push_back(fitted(learnt, grid, Interpolation::kSmoothBilinear));
    return at::cat(fit);
  }
  at::Tensor place = learnt;
  if (config_.is_dino())
    place = fitted(learnt, {config_.side(), config_.side()},
                   registers_.defined() ? Interpolation::kSmoothBicubic : Interpolation::kBicubic);
  if (!places_.empty())
    place = positions_.index_select(0, transformer::to_device(places_, positions_.device()));
  return place.unsqueeze(0).expand({squares, patches, width}).reshape({squares * patches, width});
}

at::Tensor Tower::embedded(const at::Tensor& pixels, const std::vector<PatchGrid>& grids,
                           at::ScalarType compute) const {
  const int64_t squares = pixels.size(0), width = config_.hidden_size;
  const at::Tensor x = transformer::linear_residual(patches_of(pixels, config_).to(compute), patches_,
                                                    places(squares, grids), {});
  if (!config_.has_class()) return x;
  std::vector<at::Tensor> tokens{(class_ + positions_.select(0, 0)).expand({squares, 1, width})};
  if (registers_.defined()) tokens.push_back(registers_.expand({squares, -1, width}));
  tokens.push_back(x.view({squares, config_.patches(), width}));
  const at::Tensor whole = at::cat(tokens, 1).view({-1, width});
  if (!config_.is_clip()) return whole;
  return transformer::norm_rows(whole, first_norm_);
}

at::Tensor Tower::features(const at::Tensor& pixels, const ForwardPass& pass,
                           const std::vector<PatchGrid>& grids, const InUnit& in_unit) const {
  return rows(pixels, grids, {.first = config_.has_class() ? 1 : 0, .count = -1}, pass, in_unit);
}

at::Tensor Tower::class_features(const at::Tensor& pixels, const ForwardPass& pass) const {
  return rows(pixels, {}, {.first = 0, .count = 1}, pass, nullptr);
}

// The number of tokens of each picture that attends to itself: a square, or in NaFlex a grid of them.
std::vector<int64_t> Tower::tokens_of(int64_t squares, const std::vector<PatchGrid>& grids) const {
  if (!config_.is_flexible()) return std::vector<int64_t>(static_cast<size_t>(squares), config_.tokens());
  std::vector<int64_t> tokens;
  for (const PatchGrid& grid : grids) tokens.push_back(grid.patches());
  return tokens;
}

// Rows of the last layer's output.
at::Tensor Tower::rows(const at::Tensor& pixels, const std::vector<PatchGrid>& grids, const Wanted& which,
                       const ForwardPass& pass, const InUnit& in_unit) const {
  transformer::Ragged rows;
  std::vector<int64_t> wanted;
  for (const int64_t tokens : tokens_of(pixels.size(0), grids)) {
    const int64_t end = which.count < 0 ? tokens : which.first + which.count;
    for (int64_t i = which.first; i < end; ++i) wanted.push_back(rows.rows() + i);
    rows.append(tokens);
  }
  const std::function<void(uint32_t)> enter = [in_unit, registry = place_.registry](uint32_t unit) {
    if (in_unit) in_unit(registry->of_unit(unit));
  };
  transformer::LayerPass layers;
  layers.layout = {.queries = rows, .keys = rows, .heads = config_.num_attention_heads, .causal = false};
  layers.first_unit = place_.first_unit + 1;
  layers.gelu = transformer::gelu_named(config_.hidden_act);
  layers.in_unit = enter;
  const at::Tensor x = pass.run_once(place_.first_unit,
                                     [&](const Tensors&) {
                                       enter(place_.first_unit);
                                       return Tensors{embedded(pixels, grids, pass.compute)};
                                     },
                                     {})[0];
  const at::Tensor seen = transformer::run_layers(layers_, x, layers, pass, *place_.registry, wanted);
  if (!config_.has_last_norm()) return seen;
  const uint32_t last = place_.first_unit + units() - 1;
  return pass.run_once(last,
                       [&](const Tensors& in) {
                         enter(last);
                         return Tensors{transformer::norm_rows(in[0], last_norm_)};
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

// Counts the products that are computed: 2 m n k each, and twice that again for a backward pass.
double Tower::flops(int64_t squares, const std::vector<PatchGrid>& grids, bool with_backward) const {
  const auto width = static_cast<double>(config_.hidden_size),
             inner = static_cast<double>(config_.intermediate_size);
  const double patch = 6 * width * static_cast<double>(config_.patch_size * config_.patch_size);
  double sum = 0;
  for (const int64_t tokens : tokens_of(squares, grids)) {
    const auto rows = static_cast<double>(tokens);
    const double layer = rows * (8 * width * width + 4 * width * inner) + 4 * rows * rows * width;
    sum += patch * rows + static_cast<double>(layers_.size()) * layer;
  }
  return sum * (with_backward ? 3 : 1);
}

at::Tensor fitted(const at::Tensor& positions, const PatchGrid& grid, Interpolation how) {
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(positions.size(0)))));
  if (grid.rows == side && grid.columns == side) return positions;
  const int64_t width = positions.size(1);
  const auto along = [&](int64_t to) {
    return weights(side, to, how).to(positions.device(), positions.scalar_type());
  };
  const auto product = [](const at::Tensor& x, const at::Tensor& y) {
    return transformer::linear(x, {.weight = y, .bias = {}});  // on any number of threads the same bits
  };
  const at::Tensor rows = product(along(grid.rows), positions.view({side, side * width}));
  const at::Tensor columns = rows.view({grid.rows, side, width}).transpose(0, 1).reshape({side, -1});
  return product(along(grid.columns), columns)
      .view({grid.columns, grid.rows, width})
      .transpose(0, 1)
      .reshape({-1, width});
}

}  // namespace pipeline::vision
