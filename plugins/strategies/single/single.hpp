#pragma once

#include <memory>
#include <vector>

#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/arena_state.hpp"
#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/optimizer.hpp"
#include "plugins/strategies/common/report_queue.hpp"
#include "plugins/strategies/common/sum_tree.hpp"

namespace pipeline::strategies {

// One process, one device. All weights lie in one flat arena that the task is bound to; gradients are handed
// over by the task and live from the backward pass to the update only. Holds weights, gradients and the
// optimizer's state; where the task computes in a narrower dtype than float32, master weights besides; in
// reproducible mode up to log2(micro-batches) more copies of the gradients, for the fixed tree of sums.
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
  void update(const GradientRuns& runs, double learning_rate, const GradientScale& scale);
  void publish();  // master weights -> what the task is bound to
  bool has_masters() const { return values_.scalar_type() != at::kFloat; }
  ArenaPart frozen() const;
  std::vector<ArenaPart> optimizer_parts() const;

  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  at::Tensor values_;  // the arena, in the parameters' dtype
  at::Tensor master_;  // its trainable part in float32; the same memory where that is the dtype
  std::vector<TensorView> views_;
  std::unique_ptr<Optimizer> optimizer_;
  ArenaState state_;
  GradientSum gradients_;
  SumTree<at::Tensor> loss_;
  ReportQueue reports_;
  uint64_t expected_ = 0;  // micro-batches of this step
  uint64_t seen_ = 0;
};

}  // namespace pipeline::strategies
