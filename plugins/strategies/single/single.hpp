#pragma once

#include <memory>

#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/common/replica.hpp"
#include "plugins/strategies/common/report_queue.hpp"
#include "plugins/strategies/common/step_progress.hpp"

namespace pipeline::strategies {

// One process, one device. Gradients are handed over by the task and live from the backward pass to the
// update only. Holds weights, gradients and the optimizer's state; where the task computes in a narrower
// dtype than float32, master weights besides; in reproducible mode up to log2(micro-batches) more copies of
// the gradients, for the fixed tree of sums.
//
// A parameter that gets no gradient in a step is updated with a gradient of zero.
class Single : public Strategy<NoConfig> {
 public:
  explicit Single(Setup setup);
  static const void* query(std::string_view extension);

  pl_strategy_info info() override;
  Storage storage(uint64_t index) override;
  void begin_step(uint64_t micro_batches) override;
  void gradient_ready(Gradient gradient) override;
  void end_micro_batch(const pl_tensor* loss) override;
  uint64_t step(const pl_step_args& args) override;
  pl_step_report collect(uint64_t ticket) override;
  void load_state(const StateReader& reader) override;
  std::unique_ptr<Snapshot> snapshot(uint32_t mode) override;
  void memory(const MemoryVisitor& visit) override;

 private:
  Replica replica_;
  LocalReduction reduction_;
  ReportQueue reports_;
  StepProgress progress_;
};

}  // namespace pipeline::strategies
