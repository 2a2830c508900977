// Figures of the sources that a mixture of data has, in each step's line of the log.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/torch/forward.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <string>
#include <vector>

#include "transformer/packed_batch.hpp"

namespace pipeline::language {

using transformer::PackedBatch;

// Of a batch of training, whose sample i is of the source sources[i]: "loss/NAME", the mean over a source's
// targets, and "samples/NAME".
void tell_sources(const Context& context, const PackedBatch& batch, const std::vector<size_t>& sources,
                  const std::vector<std::string>& names, const at::Tensor& row_losses);

// A batch's loss by loss_of(row_losses): see LanguageModel::loss(). Where `sources` are given, what each has
// of it is told. `names()`: what they are called.
template <class LossOf, class Names>
LossSum loss_by_sources(const Context& context, const PackedBatch& batch, const std::vector<size_t>& sources,
                        const Names& names, const LossOf& loss_of) {
  if (sources.empty()) return loss_of(at::Tensor());
  const at::Tensor rows = at::empty({batch.targets.size(0)}, batch.targets.options().dtype(at::kFloat));
  const LossSum sum = loss_of(rows);
  tell_sources(context, batch, sources, names(), rows);
  return sum;
}

}  // namespace pipeline::language
