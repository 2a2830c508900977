// Figures of a step's loss in its line of the log: of the sources that a mixture of data has, and of what is
// learnt without the terms that training adds.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/torch/forward.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <string>
#include <vector>

#include "language/language_model.hpp"

namespace pipeline::language {

// "cross_entropy": the mean over all targets.
void tell_cross_entropy(const Context& context, const at::Tensor& row_losses);

// Of a batch of training, whose sample i is of the source sources[i]: "loss/NAME", the mean cross entropy of
// a source's targets, and "samples/NAME".
void tell_sources(const Context& context, const PackedBatch& batch, const std::vector<size_t>& sources,
                  const std::vector<std::string>& names, const at::Tensor& row_losses);

// A batch's loss by loss_of(LossDetails): see LanguageModel::loss(). With terms, the cross entropy without
// them is told; where `sources` are given, what each has of it. `names()`: what they are called.
template <class LossOf, class Names>
LossSum told_loss(const Context& context, const PackedBatch& batch, const transformer::LossTerms& terms,
                  const std::vector<size_t>& sources, const Names& names, const LossOf& loss_of) {
  LossDetails details{.terms = terms};
  if (!terms.any() && sources.empty()) return loss_of(details);
  details.row_losses = at::empty({batch.targets.size(0)}, batch.targets.options().dtype(at::kFloat));
  const LossSum sum = loss_of(details);
  if (terms.any()) tell_cross_entropy(context, details.row_losses);
  if (!sources.empty()) tell_sources(context, batch, sources, names(), details.row_losses);
  return sum;
}

}  // namespace pipeline::language
