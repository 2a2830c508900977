// Metrics of a training step beside its loss: what each source of a mixture contributes, and the cross
// entropy without the terms that training adds.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/torch/forward.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <string>
#include <vector>

#include "language/language_model.hpp"

namespace pipeline::tasks::common {

// "cross_entropy": the mean over all targets.
void add_cross_entropy_metric(const Context& context, const at::Tensor& row_losses);

// Metrics of a batch of training, whose sample i is of the source sources[i]: "loss/NAME", the mean cross
// entropy of a source's targets, and "samples/NAME".
void add_source_metrics(const Context& context, const language::PackedBatch& batch,
                        const std::vector<size_t>& sources, const std::vector<std::string>& names,
                        const at::Tensor& row_losses);

// A batch's loss by loss_of(LossDetails): see LanguageModel::loss(). Where there are terms, the cross entropy
// without them becomes a metric; where `sources` are given, so does the part of each. `names()`: what the
// sources are called.
template <class LossOf, class Names>
LossSum loss_with_metrics(const Context& context, const language::PackedBatch& batch,
                          const transformer::LossTerms& terms, const std::vector<size_t>& sources,
                          const Names& names, const LossOf& loss_of) {
  language::LossDetails details{.terms = terms};
  if (!terms.any() && sources.empty()) return loss_of(details);
  details.row_losses = at::empty({batch.targets.size(0)}, batch.targets.options().dtype(at::kFloat));
  const LossSum sum = loss_of(details);
  if (terms.any()) add_cross_entropy_metric(context, details.row_losses);
  if (!sources.empty()) add_source_metrics(context, batch, sources, names(), details.row_losses);
  return sum;
}

}  // namespace pipeline::tasks::common
