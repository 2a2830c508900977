#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstdint>
#include <optional>

#include <pipeline.h>

namespace pipeline::strategies {

// The reports of the last two steps on their way from the device to the host.
class ReportQueue {
 public:
  // Scalars in double, on the device. Starts the copy and returns the step's ticket.
  uint64_t push(const at::Tensor& loss_sum, const at::Tensor& grad_norm, const at::Tensor& finite);

  // Waits for that step only.
  pl_step_report collect(uint64_t ticket);

 private:
  struct Entry {
    at::Tensor host;  // loss sum, norm, finite
    std::optional<c10::Event> copied;
  };

  static constexpr uint64_t kKept = 2;
  std::array<Entry, kKept> entries_;
  uint64_t last_ = 0;  // tickets count from 1
};

}  // namespace pipeline::strategies
