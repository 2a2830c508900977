#include <ATen/ATen.h>

#include "plugins/tasks/protein/data/structure.hpp"
#include "plugins/tasks/protein/model/geometry.hpp"
#include "plugins/tasks/protein/model/pair_bias.hpp"
#include "transformer/embedding.hpp"
#include "transformer/gemm.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::protein {
namespace {

at::Tensor rows_of(const at::Tensor& x, const transformer::Ragged& ragged, int64_t sequence) {
  return x.narrow(0, ragged.start(sequence), ragged.length(sequence));
}

at::Tensor with_flag(const at::Tensor& flags, int64_t flag) { return flags.bitwise_and(flag).ne(0); }

}  // namespace

PairFeatures pair_features(const PairInputs& inputs, int64_t sequence, at::ScalarType dtype) {
  const auto keys = [&](const at::Tensor& x) { return rows_of(x, inputs.keys, sequence); };
  const auto queries = [&](const at::Tensor& x) {
    if (inputs.query_rows.empty()) return rows_of(x, inputs.queries, sequence);
    const int64_t* const first = inputs.query_rows.data() + inputs.queries.start(sequence);
    return x.index_select(
        0, transformer::to_device({first, static_cast<size_t>(inputs.queries.length(sequence))}, x.device()));
  };
  const at::Tensor frames_i = queries(inputs.frames).to(dtype), frames_j = keys(inputs.frames).to(dtype);
  const int64_t q = frames_i.size(0), k = frames_j.size(0);
  const auto rotation = [](const at::Tensor& frames) { return frames.narrow(1, 0, 9).view({-1, 3, 3}); };
  const auto ca = [](const at::Tensor& frames) { return frames.narrow(1, 9, 3); };
  const auto both = [&](int64_t flag) {
    return with_flag(queries(inputs.flags), flag)
        .unsqueeze(1)
        .logical_and(with_flag(keys(inputs.flags), flag).unsqueeze(0));
  };
  const at::Tensor known = both(Residue::kHasCa), framed = both(Residue::kHasFrame);

  const at::Tensor to = ca(frames_j).unsqueeze(0) - ca(frames_i).unsqueeze(1);  // (q, k, 3)
  const at::Tensor distance = to.square().sum(-1).sqrt();
  const at::Tensor centers = at::arange(kGaussians, to.options()) * kGaussianStep + kFirstGaussian;
  const at::Tensor gaussians = (distance.unsqueeze(-1) - centers).square().mul(-kGaussianFactor).exp();
  const at::Tensor direction = to / distance.clamp_min(kLeastDistance).unsqueeze(-1);
  const at::Tensor from_i = at::einsum("iab,ijb->ija", {rotation(frames_i), direction});
  const at::Tensor from_j = at::einsum("jab,ijb->ija", {rotation(frames_j), -direction});
  const at::Tensor turn =
      at::einsum("iac,jbc->ijab", {rotation(frames_i), rotation(frames_j)}).reshape({q, k, 9});
  const auto where = [](const at::Tensor& mask, const at::Tensor& x) {
    return x * mask.unsqueeze(-1).to(x.scalar_type());
  };

  PairFeatures result;
  result.features = at::cat({where(known, gaussians), where(framed, from_i), where(framed, from_j),
                             where(framed, turn), known.logical_not().unsqueeze(-1).to(dtype)},
                            -1)
                        .view({q * k, kPairFeatures});
  const at::Tensor offset = (keys(inputs.positions).unsqueeze(0) - queries(inputs.positions).unsqueeze(1))
                                .clamp(-kFarthestOffset, kFarthestOffset)
                                .add(kFarthestOffset);
  const at::Tensor same = keys(inputs.chains).unsqueeze(0).eq(queries(inputs.chains).unsqueeze(1));
  result.classes = at::where(same, offset, at::full_like(offset, kOffsets - 1)).view({q * k});
  return result;
}

std::vector<at::Tensor> pair_bias_by_torch(const PairInputs& inputs, const PairNetwork& network) {
  const int64_t layers = network.out.size(0), heads = network.out.size(2);
  const at::ScalarType narrow = network.weight.scalar_type(), wide = transformer::wide(narrow);
  const at::Tensor offsets =
      network.offsets.to(wide);  // whose gradients add up over all pairs of all sequences
  std::vector<std::vector<at::Tensor>> parts(static_cast<size_t>(layers));
  for (int64_t s = 0; s < inputs.keys.sequences(); ++s) {
    const PairFeatures pairs = pair_features(inputs, s, wide);
    const at::Tensor hidden = at::gelu(pairs.features.to(narrow).matmul(network.weight) +
                                           transformer::look_up(offsets, pairs.classes).to(narrow),
                                       "tanh");
    for (int64_t l = 0; l < layers; ++l)
      parts[static_cast<size_t>(l)].push_back(
          hidden.matmul(network.out[l]).to(wide).t().reshape({heads * pairs.features.size(0)}));
  }
  std::vector<at::Tensor> biases;
  for (const auto& layer : parts)
    biases.push_back(layer.empty() ? at::zeros({0}, network.out.options().dtype(wide)) : at::cat(layer));
  return biases;
}

}  // namespace pipeline::protein
