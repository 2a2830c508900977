#include "plugins/strategies/common/replica_step.hpp"

#include "plugins/strategies/common/gradient_norm.hpp"
#include "plugins/strategies/common/verdict.hpp"

namespace pipeline::strategies {

uint64_t finish_step(Replica& replica, const StepSums& sums, const pl_step_args& args, bool fixed_order,
                     ReportQueue& reports) {
  const at::Device device = replica.device();
  // The chunks cost nothing on the CPU, elsewhere a copy.
  const bool chunked = device.is_cpu() || fixed_order;
  const at::Tensor squares =
      chunked ? in_order_sum(chunk_sums(sums.gradients, 0, replica.layout()->trainable_length(), device))
              : sum_of_squares(sums.gradients, device);
  const Verdict verdict = judge(squares, args);
  if (!verdict.skip) replica.update(sums.gradients, args.learning_rate, verdict.scale);
  return reports.push(sums.loss, verdict.grad_norm, verdict.finite);
}

}  // namespace pipeline::strategies
