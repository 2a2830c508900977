#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>

#include "plugins/data/residues/residue.hpp"
#include "plugins/models/protein/geometry.hpp"
#include "plugins/models/protein/pair_bias.hpp"
#include "transformer/embedding.hpp"
#include "transformer/gemm.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::protein {
namespace {

struct PairFeatures {
  at::Tensor features;  // (pairs, kPairFeatures)
  at::Tensor classes;   // (pairs) int64
};

PairFeatures pair_features(const PairInputs& inputs, const transformer::PairIndex& pairs,
                           at::ScalarType dtype) {
  const at::Tensor i = inputs.query_rows.empty()
                           ? pairs.query
                           : transformer::to_device(inputs.query_rows, pairs.query.device())
                                 .index_select(0, pairs.query),
                   j = pairs.key;
  const auto both = [&](int64_t flag) {  // (pairs, 1)
    const at::Tensor has = inputs.flags.bitwise_and(flag).ne(0).to(dtype);
    return (has.index_select(0, i) * has.index_select(0, j)).unsqueeze(1);
  };
  const at::Tensor frames = inputs.frames.to(dtype), frames_i = frames.index_select(0, i),
                   frames_j = frames.index_select(0, j), known = both(residues::Residue::kHasCa),
                   framed = both(residues::Residue::kHasFrame);
  const auto rotation = [](const at::Tensor& of) { return of.narrow(1, 0, 9).view({-1, 3, 3}); };
  const auto ca = [](const at::Tensor& of) { return of.narrow(1, 9, 3); };
  const auto seen_from = [&](const at::Tensor& of, const at::Tensor& direction) {  // (pairs, 3)
    return (rotation(of) * direction.unsqueeze(1)).sum(2);
  };

  const at::Tensor to = ca(frames_j) - ca(frames_i);
  const at::Tensor distance = to.square().sum(1, /*keepdim=*/true).sqrt();
  const at::Tensor centers = at::arange(kGaussians, to.options()) * kGaussianStep + kFirstGaussian;
  const at::Tensor gaussians = (distance - centers).square().mul(-kGaussianFactor).exp();
  const at::Tensor direction = to / distance.clamp_min(kLeastDistance);
  const at::Tensor turn =
      (rotation(frames_i).unsqueeze(2) * rotation(frames_j).unsqueeze(1)).sum(3).view({-1, 9});

  PairFeatures result;
  result.features = at::cat({gaussians * known, seen_from(frames_i, direction) * framed,
                             seen_from(frames_j, -direction) * framed, turn * framed, 1 - known},
                            1);
  const auto difference = [&](const at::Tensor& of) { return of.index_select(0, j) - of.index_select(0, i); };
  const at::Tensor offset =
      difference(inputs.positions).clamp(-kFarthestOffset, kFarthestOffset).add(kFarthestOffset);
  result.classes = offset.masked_fill(difference(inputs.chains).ne(0), kOffsets - 1);
  return result;
}

}  // namespace

at::Tensor pair_values(const PairInputs& inputs, const PairNetwork& network,
                       const transformer::PairIndex& pairs) {
  const at::ScalarType narrow = network.weight.scalar_type(), wide = transformer::wide(narrow);
  PairFeatures of = pair_features(inputs, pairs, wide);
  of.features = of.features.to(narrow);
  // Gradients of offsets add up over all pairs.
  const at::Tensor offsets = transformer::look_up(network.offsets.to(wide), of.classes).to(narrow);
  const at::Tensor hidden = at::gelu(of.features.matmul(network.weight) + offsets, "tanh");
  return hidden.matmul(network.out.transpose(0, 1).flatten(1));
}

}  // namespace pipeline::protein
