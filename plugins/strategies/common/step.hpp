#pragma once

#include <pipeline.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <pipeline/error.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/torch/tensor.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Returns the slot that a gradient from the task belongs to; nullopt for a parameter without elements.
// Throws Error if the parameter does not exist or is frozen, or if shape or device differ; the error names
// it.
std::optional<size_t> slot_of(const Gradient& gradient, const std::vector<Parameter>& parameters,
                              const Layout& layout, pl_device device);

// Tracks the calls of a step; checks each against begin_step.
class StepProgress {
 public:
  void begin(uint64_t micro_batches) {
    if (micro_batches == 0) fail("begin_step: 0 micro-batches, must be at least 1");
    expected_ = micro_batches;
    seen_ = 0;
  }
  void require_micro_batch(std::string_view parameter) const {
    if (seen_ >= expected_) fail("gradient of ", parameter, " outside of a micro-batch");
  }
  bool in_last_micro_batch() const { return seen_ + 1 == expected_; }
  void end_micro_batch() {
    if (seen_ >= expected_) fail("end_micro_batch: the step has ", expected_, " micro-batches");
    ++seen_;
  }
  void finish() {
    if (expected_ == 0 || seen_ != expected_) {
      fail("step: after ", seen_, " of ", expected_, " micro-batches");
    }
    expected_ = seen_ = 0;
  }

 private:
  uint64_t expected_ = 0;
  uint64_t seen_ = 0;
};

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
