#include "plugins/strategies/common/report_queue.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <pipeline/host.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

namespace pipeline::strategies {

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
