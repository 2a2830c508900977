#include "packed_batch.hpp"

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

namespace pipeline::transformer {

at::Tensor to_device(const at::Tensor& host, at::Device device) {
  if (device.is_cuda() && host.is_cpu()) return host.pin_memory().to(device, /*non_blocking=*/true);
  return host.to(device);
}

at::Tensor to_device(at::IntArrayRef numbers, at::Device device) {
  return to_device(at::tensor(numbers, at::kLong), device);
}

void PackedBatch::check(const char* model) const {
  const int64_t count = sequences.rows();
  TORCH_CHECK(tokens.dim() == 1 && tokens.numel() == count && positions.numel() == count &&
                  targets.numel() == static_cast<int64_t>(target_rows.size()),
              model, ": sequences of ", count, " rows in all with ", tokens.numel(), " tokens and ",
              positions.numel(), " positions, and ", target_rows.size(), " rows with ", targets.numel(),
              " targets");
}

PackedBatch pack(const std::vector<std::vector<int64_t>>& tokens,
                 const std::vector<std::vector<int64_t>>& targets) {
  TORCH_CHECK(tokens.size() == targets.size(), "pack: ", tokens.size(), " sequences, ", targets.size(),
              " rows of targets");
  PackedBatch batch;
  std::vector<int64_t> ids, positions, wanted;
  for (size_t s = 0; s < tokens.size(); ++s) {
    TORCH_CHECK(tokens[s].size() == targets[s].size(), "pack: sequence ", s, " has ", tokens[s].size(),
                " tokens, ", targets[s].size(), " targets");
    for (size_t i = 0; i < tokens[s].size(); ++i) {
      if (targets[s][i] >= 0) {
        batch.target_rows.push_back(static_cast<int64_t>(ids.size()));
        wanted.push_back(targets[s][i]);
      }
      ids.push_back(tokens[s][i]);
      positions.push_back(static_cast<int64_t>(i));
    }
    batch.sequences.append(static_cast<int64_t>(tokens[s].size()));
  }
  batch.tokens = at::tensor(ids, at::kLong);
  batch.positions = at::tensor(positions, at::kLong);
  batch.targets = at::tensor(wanted, at::kLong);
  return batch;
}

}  // namespace pipeline::transformer
