#include "heads.hpp"

#include <array>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "cuda/kernels.hpp"
#include "kept.hpp"
#include "layer_norm.hpp"

namespace pipeline::transformer {
namespace {

struct HeadColumns {
  int64_t first, count;
  double eps;
  bool has_mean;
};
using AllHeads = std::array<HeadColumns, 2>;

// (N * heads, D), in the dtype of the norm's weight. Contiguous also where one head is all columns: others
// than our kernels add up in an order that depends on the number of threads.
at::Tensor rows_of(const at::Tensor& x, const HeadColumns& heads, const at::Tensor& weight) {
  return x.narrow(1, heads.first, heads.count)
      .reshape({-1, weight.size(0)})
      .to(weight.scalar_type())
      .contiguous();
}

void put(at::Tensor& x, const HeadColumns& heads, const at::Tensor& rows) {
  x.narrow(1, heads.first, heads.count).copy_(rows.view({x.size(0), heads.count}));
}

at::Tensor bias_for(const at::Tensor& weight, const HeadColumns& heads) {
  return bias_of({.weight = weight, .bias = {}, .eps = heads.eps, .has_mean = heads.has_mean});
}

class NormHeads : public torch::autograd::Function<NormHeads> {
 public:
  // Weights may have no elements: none.
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& query_weight,
                          const Variable& key_weight, const AllHeads& all) {
    at::Tensor y = x.clone(at::MemoryFormat::Contiguous);
    variable_list saved{x, query_weight, key_weight, {}, {}, {}, {}};
    for (size_t i = 0; i < all.size(); ++i) {
      const at::Tensor& weight = saved[1 + i];
      if (weight.numel() == 0) continue;
      const LayerNormed normed =
          layer_norm(rows_of(x, all[i], weight), weight, bias_for(weight, all[i]), all[i].eps);
      put(y, all[i], normed.y);
      saved[3 + i] = normed.mean;
      saved[5 + i] = normed.rstd;
    }
    ctx->save_for_backward(saved);
    keep(ctx, all);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const AllHeads& all = kept<AllHeads>(ctx);
    at::Tensor dx = grads[0].clone(at::MemoryFormat::Contiguous);
    variable_list result{dx, Variable(), Variable(), Variable()};
    for (size_t i = 0; i < all.size(); ++i) {
      const at::Tensor& weight = saved[1 + i];
      if (weight.numel() == 0) continue;
      const LayerNormGradients d =
          layer_norm_backward(rows_of(grads[0], all[i], weight), rows_of(saved[0], all[i], weight), weight,
                              bias_for(weight, all[i]), saved[3 + i], saved[5 + i], {}, /*need_x=*/true,
                              ctx->needs_input_grad(1 + i));
      put(dx, all[i], d.x);
      result[1 + i] = d.weight;
    }
    return result;
  }
};

// On a device: norms and rotary positions by one kernel.
class NormAndTurnHeads : public torch::autograd::Function<NormAndTurnHeads> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& query_weight,
                          const Variable& key_weight, cuda::Heads heads) {
    ctx->save_for_backward({x, query_weight, key_weight});
    at::Tensor y = at::empty_like(x);
    cuda::turn_heads(x, y, heads);
    heads.query_weight = heads.key_weight = at::Tensor();
    keep(ctx, heads);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    cuda::Heads heads = kept<cuda::Heads>(ctx);
    if (saved[1].numel() > 0) heads.query_weight = saved[1];
    if (saved[2].numel() > 0) heads.key_weight = saved[2];
    const auto [dx, of_queries, of_keys] = cuda::turn_heads_backward(
        grads[0].contiguous(), saved[0], heads, ctx->needs_input_grad(1) || ctx->needs_input_grad(2));
    return {dx, of_queries, of_keys, Variable()};
  }
};

}  // namespace

at::Tensor ready_heads(const at::Tensor& x, const NormedHeads& queries, const NormedHeads& keys,
                       const Rotation& rotation) {
  const bool has_norms = queries.norm.weight.defined() || keys.norm.weight.defined();
  if (x.is_cuda() && has_norms && rotation.cos.defined() && !queries.norm.has_mean) {
    const int64_t width = 2 * rotation.cos.size(1);
    const auto weight = [](const NormedHeads& of) { return of.count > 0 ? of.norm.factor() : at::Tensor(); };
    const cuda::Heads heads{.width = width,
                            .queries = queries.count / width,
                            .turned = (queries.count + keys.count) / width,
                            .cos = rotation.cos,
                            .sin = rotation.sin,
                            .query_weight = weight(queries),
                            .key_weight = weight(keys),
                            .eps = queries.norm.eps};
    const auto or_none = [&](const at::Tensor& t) { return t.defined() ? t : at::empty({0}, x.options()); };
    if (cuda::has_head_kernels_for(x, heads))
      return NormAndTurnHeads::apply(x, or_none(heads.query_weight), or_none(heads.key_weight), heads);
  }
  const at::Tensor normed = has_norms ? norm_heads(x, queries, keys) : x;
  return rotation.cos.defined() ? rotate_(normed, queries.count + keys.count, rotation) : normed;
}

at::Tensor norm_heads(const at::Tensor& x, const NormedHeads& queries, const NormedHeads& keys) {
  const auto weight = [&](const NormedHeads& heads) {
    return heads.count > 0 ? heads.norm.factor() : at::empty({0}, x.options());
  };
  const auto columns = [](const NormedHeads& heads) {
    return HeadColumns{heads.first, heads.count, heads.norm.eps, heads.norm.has_mean};
  };
  return NormHeads::apply(x, weight(queries), weight(keys), AllHeads{columns(queries), columns(keys)});
}

}  // namespace pipeline::transformer
