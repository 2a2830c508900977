#include "plugins/tasks/common/loss_metrics.hpp"

#include <ATen/core/Tensor.h>

#include <pipeline/torch/tensor.hpp>

namespace pipeline::tasks::common {

void add_cross_entropy_metric(const Context& context, const at::Tensor& row_losses) {
  context.metric("cross_entropy", to_pl(row_losses.sum(at::kDouble)),
                 static_cast<double>(row_losses.size(0)));
}

void add_source_metrics(const Context& context, const language::PackedBatch& batch,
                        const std::vector<size_t>& sources, const std::vector<std::string>& names,
                        const at::Tensor& row_losses) {
  std::vector<double> samples(names.size());
  std::vector<std::vector<int64_t>> rows(names.size());  // of the losses
  size_t row = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    samples[sources[s]] += 1;
    for (const int64_t end = batch.sequences.starts[s + 1];
         row < batch.target_rows.size() && batch.target_rows[row] < end; ++row)
      rows[sources[s]].push_back(static_cast<int64_t>(row));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (samples[i] > 0) context.metric("samples/" + names[i], samples[i], 0);
    if (rows[i].empty()) continue;
    const at::Tensor sum =
        row_losses.index_select(0, transformer::to_device(rows[i], row_losses.device())).sum(at::kDouble);
    context.metric("loss/" + names[i], to_pl(sum), static_cast<double>(rows[i].size()));
  }
}

}  // namespace pipeline::tasks::common
