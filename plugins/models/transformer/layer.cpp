#include "layer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "gated_unit.hpp"
#include "gemm.hpp"
#include "heads.hpp"
#include "layer_norm.hpp"
#include "packed_batch.hpp"

namespace pipeline::transformer {

Linear add_linear(ParameterRegistry& parameters, const std::string& name, int64_t in, int64_t out,
                  uint32_t unit, double deviation, const std::vector<int64_t>& parts) {
  return {
      add_matrix(parameters, name, in, out, unit, deviation, parts),
      parameters.add({.name = name + ".bias", .shape = {out}, .decay = false, .unit = unit}, constant(0))};
}

at::Tensor add_matrix(ParameterRegistry& parameters, const std::string& name, int64_t in, int64_t out,
                      uint32_t unit, double deviation, const std::vector<int64_t>& parts) {
  std::shared_ptr<const Coding> coding = coding_of_parts(in, parts);
  const uint32_t coded = coding ? PL_FORM_INT8 | PL_FORM_NF4 : 0;
  return parameters.add({.name = name + ".weight",
                         .shape = {in, out},
                         .unit = unit,
                         .forms = PL_FORM_BFLOAT16 | coded,
                         .hidden_matrix = unit > 0},
                        normal(deviation), std::move(coding));
}

Norm add_norm(ParameterRegistry& parameters, const std::string& name, int64_t width, uint32_t unit,
              double epsilon, bool has_bias) {
  const auto add = [&](const char* part, float value) {
    return parameters.add({.name = name + part, .shape = {width}, .decay = false, .unit = unit},
                          constant(value));
  };
  Norm norm{.weight = add(".weight", 1), .bias = {}, .eps = epsilon, .has_mean = true};
  if (has_bias) norm.bias = add(".bias", 0);
  return norm;
}

Layer add_layer(ParameterRegistry& parameters, const std::string& name, uint32_t unit,
                const LayerShape& shape, const LayerNames& names) {
  const auto norm = [&](const char* part) {
    return add_norm(parameters, name + "." + part, shape.width, unit, shape.epsilon);
  };
  const auto linear = [&](const char* part, int64_t in, int64_t out, double deviation, size_t count = 1) {
    const std::vector<int64_t> parts(count, out);
    return add_linear(parameters, name + "." + part, in, out * static_cast<int64_t>(count), unit, deviation,
                      parts);
  };
  return {.attention_norm = norm(names.attention_norm),
          .qkv = linear(names.qkv, shape.width, shape.width, shape.deviation, 3),
          .projection = linear(names.projection, shape.width, shape.width, shape.into_residual),
          .mlp_norm = norm(names.mlp_norm),
          .up = linear(names.up, shape.width, shape.inner, shape.deviation),
          .down = linear(names.down, shape.inner, shape.width, shape.into_residual)};
}

namespace {

enum class Site : uint64_t { kAttention, kProjection, kMlp, kCount };

Dropout dropout_at(const LayerPass& shared, const ForwardPass& pass, double p, uint64_t layer, Site site) {
  if (!pass.training || p == 0) return {};
  const uint64_t number =
      shared.first_site + layer * static_cast<uint64_t>(Site::kCount) + static_cast<uint64_t>(site);
  return {p, dropout_key(pass.dropout_seed, number)};
}

// Dropout for all of a layer's LoRA, each of which has a number of its own: dropout_of().
Dropout lora_dropout_of(const LayerPass& shared, const ForwardPass& pass, uint64_t layer) {
  constexpr uint64_t kFirst = uint64_t{1} << 32;
  if (!pass.training || shared.dropout.lora == 0) return {};
  return {shared.dropout.lora, dropout_key(pass.dropout_seed, kFirst + layer)};
}
enum class LoraSite : uint64_t { kQkv = 0, kProjection = 8, kUp = 16, kDown = 24 };
Dropout dropout_of(const Dropout& all, LoraSite first, size_t i) {
  return {all.p, dropout_key(all.key, static_cast<uint64_t>(first) + i)};
}

// norm(x) in `compute`; only where LoRA reads a part of it, or there is no norm.
at::Tensor normed_input(const at::Tensor& x, const Norm& norm, at::ScalarType compute) {
  if (!norm.weight.defined()) return x.to(compute);
  if (norm.bias.defined() || norm.has_mean) return norm_rows(x, norm).to(compute);
  const at::Tensor wide = x.to(transformer::wide(x.scalar_type()));
  return (wide * (wide.square().mean(1, true) + norm.eps).rsqrt() * norm.factor()).to(compute);
}

// norm(x) W + b.
at::Tensor norm_linear_if_any(const at::Tensor& x, const Norm& norm, const Linear& to,
                              at::ScalarType compute) {
  return norm.weight.defined() ? norm_linear(x, norm, to, compute) : linear(x.to(compute), to);
}

// norm(x) W for columns first .. first + count - 1, LoRA included. These are made of the norm's output
// again, which is cheaper than to keep it.
at::Tensor norm_linear_added(const at::Tensor& x, const Norm& norm, const Linear& to,
                             const std::vector<Lora>& lora, LoraSite numbers, const Dropout& dropout,
                             int64_t first, int64_t count, at::ScalarType compute) {
  const bool whole = count == outputs(to.weight);
  at::Tensor y = norm_linear_if_any(x, norm, whole ? to : columns(to, first, count), compute);
  struct Part {  // of a LoRA: the columns that are wanted
    size_t number;
    int64_t begin, end;
  };
  std::vector<Part> wanted;
  std::vector<at::Tensor> downs, small;  // small: what each LoRA's `up` takes
  for (size_t i = 0; i < lora.size(); ++i) {
    const Lora& low = lora[i];
    const int64_t begin = std::max(low.first, first),
                  end = std::min(low.first + low.up.size(1), first + count);
    if (begin >= end) continue;
    wanted.push_back({i, begin, end});
    downs.push_back(low.down);
  }
  if (wanted.empty()) return y;
  if (dropout.active()) {
    const at::Tensor input = normed_input(x, norm, compute);
    for (const Part& part : wanted)
      small.push_back(
          linear(dropped(input, dropout_of(dropout, numbers, part.number)), {lora[part.number].down, {}}));
  } else {
    std::vector<int64_t> ranks;
    for (const at::Tensor& down : downs) ranks.push_back(down.size(1));
    small = norm_linear_if_any(x, norm, {at::cat(downs, 1), {}}, compute).split_with_sizes(ranks, 1);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto& [number, begin, end] = wanted[i];
    const Lora& low = lora[number];
    y = add_product_(y, small[i], low.up.narrow(1, begin - low.first, end - begin) * low.scale,
                     begin - first);
  }
  return y;
}

// y with the LoRA of the matrix that made it of h.
at::Tensor added(at::Tensor y, const at::Tensor& h, const std::vector<Lora>& lora, LoraSite numbers,
                 const Dropout& dropout) {
  for (size_t i = 0; i < lora.size(); ++i) {
    const Lora& low = lora[i];
    const at::Tensor input = dropout.active() ? dropped(h, dropout_of(dropout, numbers, i)) : h;
    const at::Tensor small = linear(input, {low.down, {}}), up = low.up * low.scale;
    y = small.scalar_type() == y.scalar_type() ? add_product_(y, small, up)
                                               : y + linear(small, {up, {}}).to(y.scalar_type());
  }
  return y;
}

// The norm over whole rows: one head.
at::Tensor normed(const at::Tensor& x, const Norm& norm) { return norm_heads(x, {0, x.size(1), norm}, {}); }

// What a half of the layer adds to the residual stream.
struct End {
  Linear matrix;
  const std::vector<Lora>& lora;
  LoraSite numbers;
  const Norm& norm;  // undefined: none
};
// residual + dropout(norm(h W)), W with its LoRA.
at::Tensor to_residual(const at::Tensor& h, const End& end, const at::Tensor& residual,
                       const Dropout& dropout, const Dropout& lora_dropout) {
  if (!end.norm.weight.defined() && (end.lora.empty() || !dropout.active()))
    return added(linear_residual(h, end.matrix, residual, dropout), h, end.lora, end.numbers, lora_dropout);
  at::Tensor y = added(linear(h, end.matrix), h, end.lora, end.numbers, lora_dropout);
  if (end.norm.weight.defined()) y = normed(y, end.norm);
  y = y.to(residual.scalar_type());
  return residual + (dropout.active() ? dropped(y, dropout) : y);
}

// What scales a product's columns may as well scale those of its matrix, of which there are fewer.
Linear scaled(const Linear& linear, const at::Tensor& scale) {
  if (!scale.defined()) return linear;
  const at::Tensor& weight = linear.weight;
  return {(is_coded(weight) ? decoded(weight, scale.scalar_type()) : weight) * scale,
          linear.bias.defined() ? linear.bias * scale : linear.bias};
}

// The fused forms have no LoRA, and the gated one no dropout.
at::Tensor mlp(const Layer& layer, const at::Tensor& x, const Dropout& dropout, const Dropout& lora_dropout,
               Gelu form, at::ScalarType compute) {
  const bool is_plain = layer.up_lora.empty() && layer.down_lora.empty();
  const Linear down = scaled(layer.down, layer.mlp_scale);
  if (is_plain && !layer.gate && layer.mlp_norm.weight.defined())
    return norm_mlp_residual(x, layer.mlp_norm, layer.up, down, dropout, compute, form);
  if (is_plain && !dropout.active() && !layer.up.bias.defined() && !layer.down.bias.defined() &&
      !layer.mlp_end_norm.weight.defined())
    return norm_gated_residual(x, layer.mlp_norm, layer.up, down, compute, *layer.gate);
  const at::Tensor wide = norm_linear_added(x, layer.mlp_norm, layer.up, layer.up_lora, LoraSite::kUp,
                                            lora_dropout, 0, outputs(layer.up.weight), compute);
  const at::Tensor h = layer.gate ? gated_unit(wide, *layer.gate) : gelu(wide, form);
  return to_residual(h, {down, layer.down_lora, LoraSite::kDown, layer.mlp_end_norm}, x, dropout,
                     lora_dropout);
}

}  // namespace

at::Tensor attention_input(const Layer& layer, const at::Tensor& x, int64_t first, int64_t count,
                           const Rotation& rotation, at::ScalarType compute, const Dropout& lora_dropout) {
  at::Tensor y = norm_linear_added(x, layer.attention_norm, layer.qkv, layer.qkv_lora, LoraSite::kQkv,
                                   lora_dropout, first, count, compute);
  const int64_t queries = inputs(layer.projection.weight), keys = (outputs(layer.qkv.weight) - queries) / 2;
  const int64_t queries_here = first == 0 ? queries : 0;
  return ready_heads(y, {0, queries_here, layer.query_norm},
                     {queries_here, first + count > queries ? keys : 0, layer.key_norm}, rotation);
}

bool few_rows(size_t wanted, int64_t all) {
  constexpr double kFew = 0.75;
  return wanted > 0 && static_cast<double>(wanted) < kFew * static_cast<double>(all);
}

namespace {

// Where flash attention may be used: not in float32, whose masks of dropout are the CPU's, by row.
bool takes_consecutive(const AttentionLayout& layout, const at::Tensor& x, at::ScalarType compute) {
  return layout.causal && !x.is_cpu() && wide(compute) != compute;
}

// In each sequence all rows from the first of `rows` to the last.
std::vector<int64_t> without_gaps(const std::vector<int64_t>& rows, const Ragged& sequences) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto next = std::upper_bound(sequences.starts.begin(), sequences.starts.end(), rows[i]);
    if (i > 0 && rows[i - 1] >= *(next - 1))
      for (int64_t row = rows[i - 1] + 1; row < rows[i]; ++row) all.push_back(row);
    all.push_back(rows[i]);
  }
  return all;
}

// Where each of `some` is among `all`; both ascend.
std::vector<int64_t> places(const std::vector<int64_t>& some, const std::vector<int64_t>& all) {
  std::vector<int64_t> result;
  for (const int64_t row : some)
    result.push_back(std::lower_bound(all.begin(), all.end(), row) - all.begin());
  return result;
}

void leave_out_unseen_keys(RowsOfLayer& rows, at::Device device) {
  AttentionLayout& layout = rows.layout;
  std::vector<int64_t> seen;
  Ragged keys;
  for (int64_t s = 0; s < layout.queries.sequences(); ++s) {
    const int64_t count = layout.queries.length(s) == 0
                              ? 0
                              : layout.positions[static_cast<size_t>(layout.queries.start(s + 1) - 1)] + 1;
    keys.append(count);
    for (int64_t i = 0; i < count; ++i) seen.push_back(layout.keys.start(s) + i);
  }
  if (keys.rows() == layout.keys.rows()) return;
  layout.keys = keys;
  rows.key_index = to_device(seen, device);
}

}  // namespace

RowsOfLayer rows_of_layer(const LayerKind& kind, const std::vector<int64_t>& rows, const at::Tensor& x,
                          at::ScalarType compute) {
  const at::Device device = x.device();
  RowsOfLayer result{.index = to_device(rows, device), .layout = queries_at(kind.layout, rows)};
  if (takes_consecutive(kind.layout, x, compute)) leave_out_unseen_keys(result, device);
  result.layout = shared_by_layers(std::move(result.layout));
  if (kind.rotation.cos.defined())
    result.rotation = {kind.rotation.cos.index_select(0, result.index),
                       kind.rotation.sin.index_select(0, result.index)};
  return result;
}

at::Tensor run_layer(const Layer& layer, uint64_t number, const at::Tensor& x, const LayerPass& shared,
                     const ForwardPass& pass, const RowsOfLayer& rows, const at::Tensor& bias) {
  const AttentionLayout& layout = layer.is_local ? shared.local->layout : shared.layout;
  const Rotation rotation = layer.is_unturned ? Rotation{}
                            : layer.is_local  ? shared.local->rotation
                                              : shared.rotation;
  const int64_t width = inputs(layer.projection.weight), keys = layout.key_width(width);
  const Dropout dropout = dropout_at(shared, pass, shared.dropout.attention, number, Site::kAttention);
  const Dropout lora_dropout = lora_dropout_of(shared, pass, number);
  const auto input = [&](const at::Tensor& of, int64_t first, int64_t count, const Rotation& by) {
    return attention_input(layer, of, first, count, by, pass.compute, lora_dropout);
  };
  if (!rows.index.defined()) {
    const at::Tensor qkv = input(x, 0, width + 2 * keys, rotation);
    return after_attention(layer, number, ragged_self_attention(qkv, layout, dropout, bias), x, shared, pass);
  }
  at::Tensor kv = input(x, width, 2 * keys, rotation);
  if (rows.key_index.defined()) kv = kv.index_select(0, rows.key_index);
  const at::Tensor picked = x.index_select(0, rows.index);
  const at::Tensor q = input(picked, 0, width, layer.is_unturned ? Rotation{} : rows.rotation);
  const at::Tensor h =
      ragged_attention(q, kv.narrow(1, 0, keys), kv.narrow(1, keys, keys), rows.layout, dropout, bias);
  return after_attention(layer, number, h, picked, shared, pass);
}

at::Tensor after_attention(const Layer& layer, uint64_t number, const at::Tensor& h,
                           const at::Tensor& residual, const LayerPass& shared, const ForwardPass& pass) {
  const auto dropout = [&](Site site) {
    return dropout_at(shared, pass, shared.dropout.residual, number, site);
  };
  const Dropout lora_dropout = lora_dropout_of(shared, pass, number);
  at::Tensor middle = to_residual(h,
                                  {scaled(layer.projection, layer.attention_scale), layer.projection_lora,
                                   LoraSite::kProjection, layer.attention_end_norm},
                                  residual, dropout(Site::kProjection), lora_dropout);
  if (layer.attention_sum_norm.weight.defined()) middle = norm_rows(middle, layer.attention_sum_norm);
  const at::Tensor x = mlp(layer, middle, dropout(Site::kMlp), lora_dropout, shared.gelu, pass.compute);
  return layer.mlp_sum_norm.weight.defined() ? norm_rows(x, layer.mlp_sum_norm) : x;
}

at::Tensor run_layers(const std::vector<Layer>& layers, at::Tensor x, const LayerPass& shared,
                      const ForwardPass& pass, const ParameterRegistry& parameters,
                      const std::vector<int64_t>& wanted) {
  // A layer may run again in the backward pass, when all of this is gone.
  struct Held {
    LayerPass shared;
    ForwardPass pass;
    RowsOfLayer last;
  };
  const int64_t count = x.size(0);
  const std::vector<int64_t> rows =
      takes_consecutive(shared.layout, x, pass.compute) ? without_gaps(wanted, shared.layout.keys) : wanted;
  const bool few = few_rows(rows.size(), count), all = static_cast<int64_t>(wanted.size()) == count;
  LayerPass there = shared;
  there.layout = shared_by_layers(shared.layout);
  if (there.local) there.local->layout = shared_by_layers(there.local->layout);
  const LayerKind last =
      !layers.empty() && layers.back().is_local ? *shared.local : LayerKind{shared.layout, shared.rotation};
  const auto held = std::make_shared<const Held>(
      Held{std::move(there), pass, few ? rows_of_layer(last, rows, x, pass.compute) : RowsOfLayer{}});
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto unit = shared.first_unit + static_cast<uint32_t>(i);
    const bool is_last = i + 1 == layers.size();
    x = pass.run(
        unit,
        [held, i, unit, is_last, layer = layers[i]](const Tensors& in) {
          if (held->shared.in_unit) held->shared.in_unit(unit);
          return Tensors{
              run_layer(layer, i, in[0], held->shared, held->pass, is_last ? held->last : RowsOfLayer{})};
        },
        {x}, parameters.of_unit(unit))[0];
  }
  if (all || (few && rows.size() == wanted.size())) return x;
  return x.index_select(0, to_device(few ? places(wanted, rows) : wanted, x.device()));
}

}  // namespace pipeline::transformer
