#include "plugins/strategies/common/step.hpp"

#include <algorithm>

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pipeline/host.hpp>
#include <pipeline/torch/tensor.hpp>

namespace pipeline::strategies {
namespace {

// Checks the rows' numbers on the CPU, where looking costs nothing.
void check_rows(const pl_tensor& rows, const Parameter& parameter, pl_device device) {
  if (rows.dtype.code != PL_DTYPE_INT || rows.dtype.bits != 64 || rows.dtype.lanes != 1)
    fail("rows of the gradient of ", parameter.name, " are ", name_of(rows.dtype), ", expected int64");
  if (!same(rows.device, device))
    fail("rows of the gradient of ", parameter.name, " are on ", name_of(rows.device), ", expected ",
         name_of(device));
  if (device.type != PL_DEVICE_CPU || rows.shape[0] == 0) return;
  const auto [least, most] = at::aminmax(to_torch(rows));
  for (const int64_t row : {least.item<int64_t>(), most.item<int64_t>()})
    if (row < 0 || row >= parameter.shape[0])
      fail("gradient of row ", row, " of ", parameter.name, ", which has ", parameter.shape[0]);
}

}  // namespace

std::optional<size_t> slot_of(const Gradient& gradient, const std::vector<Parameter>& parameters,
                              const Layout& layout, pl_device device) {
  if (gradient.index() >= parameters.size()) {
    fail("gradient of parameter ", gradient.index(), " of ", parameters.size());
  }
  const Parameter& parameter = parameters[gradient.index()];
  const pl_tensor& tensor = gradient.tensor();
  const size_t slot = layout.slot_index(gradient.index());
  if (slot >= layout.trainable_slots()) fail("gradient of ", parameter.name, ", which is frozen");
  std::vector<int64_t> expected(parameter.shape.begin(), parameter.shape.end());
  if (gradient.rows() != nullptr) {
    if (expected.empty() || gradient.rows()->ndim != 1)
      fail("gradient of ", parameter.name, ": rows of a shape without rows");
    check_rows(*gradient.rows(), parameter, device);
    expected[0] = gradient.rows()->shape[0];
  }
  if (!std::ranges::equal(shape_of(tensor), expected)) {
    fail("gradient of ", parameter.name, " has shape ", name_of(shape_of(tensor)), ", expected ",
         name_of(expected));
  }
  if (parameter.count() == 0) return std::nullopt;
  if (!same(tensor.device, device)) {
    fail("gradient of ", parameter.name, " is on ", name_of(tensor.device), ", expected ", name_of(device));
  }
  return slot;
}

uint64_t ReportQueue::push(const at::Tensor& loss_sum, const at::Tensor& grad_norm,
                           const at::Tensor& finite) {
  const at::Tensor figures = at::stack({loss_sum, grad_norm, finite});
  Entry& entry = entries_[++last_ % kKept];
  if (figures.is_cpu()) {
    entry.host = figures;
    return last_;
  }
  if (!entry.host.defined())
    entry.host = at::empty({3}, at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
  entry.host.copy_(figures, /*non_blocking=*/true);
  const at::Device device = figures.device();
  if (!entry.copied) entry.copied.emplace(device.type());
  entry.copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return last_;
}

pl_step_report ReportQueue::collect(uint64_t ticket) {
  if (ticket == 0 || ticket > last_ || ticket + kKept <= last_) {
    fail("collect: ticket ", ticket, " is not of one of the last ", kKept, " steps; the last is ", last_);
  }
  Entry& entry = entries_[ticket % kKept];
  if (entry.copied) entry.copied->synchronize();
  const double* figures = entry.host.const_data_ptr<double>();
  auto report = sized<pl_step_report>();
  report.loss_sum = figures[0];
  report.grad_norm = figures[1];
  report.finite = figures[2] == 1 ? 1 : 0;
  return report;
}

}  // namespace pipeline::strategies
