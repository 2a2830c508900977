// Transformer layers: their parameters, and how a model runs them.
#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <optional>
#include <string>
#include <vector>

#include "attention.hpp"
#include "blocks.hpp"
#include "rotary.hpp"

namespace pipeline::transformer {

// "name.weight" (in, out), N(0, deviation), with weight decay, and "name.bias", zero. parts: the columns of
// each of the matrices that it is made of; none: it is not kept in 8 or 4 bits.
Linear add_linear(ParameterRegistry& parameters, const std::string& name, int64_t in, int64_t out,
                  uint32_t unit, double deviation, const std::vector<int64_t>& parts = {});
// A weight without a bias. Both functions declare parameters of a hidden layer where the unit is not 0.
at::Tensor add_matrix(ParameterRegistry& parameters, const std::string& name, int64_t in, int64_t out,
                      uint32_t unit, double deviation, const std::vector<int64_t>& parts = {});
Norm add_norm(ParameterRegistry& parameters, const std::string& name, int64_t width, uint32_t unit,
              double epsilon, bool has_bias = true);

// LoRA of a matrix W (in, out), for columns `first` on: W + scale * down up, with down (in, rank) and
// up (rank, columns). LoRA (Hu et al., arXiv:2106.09685).
struct Lora {
  at::Tensor down, up;
  int64_t first = 0;
  double scale = 1;
};

struct Layer {
  Norm attention_norm;  // undefined, as mlp_norm may be: the residual stream is read as it is
  Linear qkv, projection;
  Norm mlp_norm;
  Linear up, down;
  std::optional<Gate> gate = {};  // norm_gated_residual() instead of norm_mlp_residual()
  // Norms of queries' and keys' heads, or of all heads together, before positions turn them; undefined: none.
  Norm query_norm = {}, key_norm = {};
  // RMS norms of what attention and the MLP give, before it is added; undefined: none.
  Norm attention_end_norm = {}, mlp_end_norm = {};
  // Norms of the residual stream after each of both was added, as BERT has them; undefined: none.
  Norm attention_sum_norm = {}, mlp_sum_norm = {};
  // (C), times what attention and the MLP give, before it is added: LayerScale (Touvron et al.,
  // arXiv:2103.17239), of layers without LoRA; undefined: none.
  at::Tensor attention_scale = {}, mlp_scale = {};
  bool is_local = false;     // LayerPass::local is its layout and rotation
  bool is_unturned = false;  // positions do not turn its queries and keys
  std::vector<Lora> qkv_lora = {}, projection_lora = {};
  std::vector<Lora> up_lora = {}, down_lora = {};
};

// norm(x) W for columns first .. first + count - 1 of the layer's queries, keys and values, LoRA, norms of
// their heads and rotary positions included: (N, count) in `compute`. The columns are all, the queries', or
// the others. `lora_dropout`: see DropoutRates.
at::Tensor attention_input(const Layer& layer, const at::Tensor& x, int64_t first, int64_t count,
                           const Rotation& rotation, at::ScalarType compute,
                           const Dropout& lora_dropout = {});

struct LayerShape {
  int64_t width, inner;             // of the MLP
  double epsilon;                   // of the norms
  double deviation, into_residual;  // of initial weights; of those that write to the residual stream
};
// What a model calls the parts of its layers.
struct LayerNames {
  const char *attention_norm, *qkv, *projection, *mlp_norm, *up, *down;
};
// Declares a layer's parameters, as "name.attention_norm.weight" and so on, in this order.
Layer add_layer(ParameterRegistry& parameters, const std::string& name, uint32_t unit,
                const LayerShape& shape, const LayerNames& names);

// Shares of what is dropped, of attention's weights, before each residual addition, and of the
// input of each LoRA.
struct DropoutRates {
  double attention = 0, residual = 0, lora = 0;
};

// How the layers of one kind attend.
struct LayerKind {
  AttentionLayout layout;
  Rotation rotation = {};
};

// What all layers of a stack share in a forward pass.
struct LayerPass {
  AttentionLayout layout;
  Rotation rotation = {};  // of the rows; undefined: positions are not rotary
  DropoutRates dropout = {};
  uint64_t first_site = 0;  // numbers the first layer's places of dropout; each layer has three
  uint32_t first_unit = 1;  // the first layer's
  std::optional<LayerKind> local = {};
  Gelu gelu = Gelu::kTanh;
  // (optional) Called within each unit, where its parameters are in place.
  std::function<void(uint32_t unit)> in_unit = nullptr;
};

// What a layer takes that is computed at some rows alone: of the others it needs only keys and values.
struct RowsOfLayer {
  at::Tensor index;  // (R) int64, ascending; undefined: all rows
  AttentionLayout layout = {};
  Rotation rotation = {};
  at::Tensor key_index = {};  // (K) int64: rows that any of these sees; undefined: all rows
};
// The rows of a layer of this kind whose input is x. Causal attention in a narrow dtype on a device takes
// queries that follow one another, and as keys all that the last one sees: `rows` must be so there, and keys
// behind them are left out.
RowsOfLayer rows_of_layer(const LayerKind& kind, const std::vector<int64_t>& rows, const at::Tensor& x,
                          at::ScalarType compute);

// Whether to compute the last layer only at the rows that are wanted.
bool few_rows(size_t wanted, int64_t all);

// x (N, C) -> (N, C), or (R, C) at `rows`. number: of the layer in its model, from 0; its dropout depends on
// it. bias: see ragged_attention().
at::Tensor run_layer(const Layer& layer, uint64_t number, const at::Tensor& x, const LayerPass& shared,
                     const ForwardPass& pass, const RowsOfLayer& rows = {}, const at::Tensor& bias = {});
// A layer's second half, after attention: h is attention's output.
at::Tensor after_attention(const Layer& layer, uint64_t number, const at::Tensor& h,
                           const at::Tensor& residual, const LayerPass& shared, const ForwardPass& pass);

// The stack, one unit a layer: (T, C), its output at `wanted` (ascending).
at::Tensor run_layers(const std::vector<Layer>& layers, at::Tensor x, const LayerPass& shared,
                      const ForwardPass& pass, const ParameterRegistry& parameters,
                      const std::vector<int64_t>& wanted);

}  // namespace pipeline::transformer
