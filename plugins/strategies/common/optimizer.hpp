#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/arena.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/rules/update_rule.hpp"

namespace pipeline::strategies {

// The update rules over (a shard of) the flat arena, in float32, and their state.
class Optimizer {
 public:
  // `rules`: by Group::optimizer. `context`: of the strategy. `master`: the weights of the arena from element
  // `begin` on. They and the state may be in pinned host memory, from which they are copied to `device`,
  // where gradients are, and back for each update. Throws Error for invalid options.
  Optimizer(const Context& context, const std::vector<OptimizerRule>& rules,
            std::shared_ptr<const Layout> layout, at::Tensor master, int64_t begin, at::Device device,
            bool state_on_host = false);

  // The same weights in the fewer bits that the task computes with, for rules that write them, too.
  void set_narrow_weights(at::Tensor narrow) { narrow_ = std::move(narrow); }

  // The state as checkpoints have it; what is kept in 8 bits is widened, and a copy.
  std::vector<ArenaPart> state() const;
  // Fills the state: with zeros where the reader has values only. The caller sets the count of updates.
  void load(const ArenaState& arena, const StateReader& reader);
  // All of the state's memory.
  std::vector<at::Tensor> state_tensors() const;
  uint64_t state_bytes() const;
  pl_dtype state_dtype() const;  // of the narrowest

  // Updates done, by loss: float32 on the device, used in the bias correction.
  const at::Tensor& step_counts() const { return step_counts_; }
  void set_step_counts(const at::Tensor& counts) { step_counts_.copy_(counts); }

  // To be called once per step, before update(), which is for the losses that have a turn.
  void advance(const LossScales& scales);
  // The runs belong to groups that are updated as `group` is, lie within the master weights and do not
  // overlap in memory: they may be overwritten. For a rule of matrices they are directions, transformed.
  // True: the narrow weights are up to date.
  bool update(const Group& group, const GradientRuns& runs, double learning_rate, const GradientScale& scale);
  // For a rule of matrices: the same runs, of what the rule is to transform.
  GradientRuns directions(const Group& group, const GradientRuns& runs, const GradientScale& scale);
  // The master weights and their moving average, if there is one that an update has begun, change places.
  void swap_average();
  const UpdateRule& rule(const Group& group) const { return rules_.at(group.optimizer); }

 private:
  // Elements of one loss whose rules have state of the same kinds.
  struct Segment {
    int64_t begin, end;
    uint32_t loss;
    std::vector<StateKind> kinds;  // of the rules
    std::vector<Kept> state;       // by kind, and behind them the moving average, if there is one
    StateKind kind(size_t i) const { return i < kinds.size() ? kinds[i] : StateKind{MovingAverage::kKind}; }
  };
  // What belongs to a run. Made once, because the runs of most steps are the same: a device would wait for
  // the host that makes three views of each parameter in each step.
  struct Views {
    at::Tensor weights, narrow;
    std::vector<Kept> state;  // where it is kept, by kind
    UpdateRuns::Place place;
  };

  void make_segments(bool on_host);
  const Segment& segment_of(int64_t offset) const;
  UpdateRuns::Place place_of(int64_t offset) const;
  static GradientScale limit(const GradientRuns& runs, GradientScale scale);
  void add_to_average(const Group& group, const GradientRuns& runs);
  const Views& views_of(const GradientRun& run);
  using Slot = void (UpdateRule::*)(UpdateRuns&) const;
  struct Called {
    GradientRuns runs;  // with what the rule has left in place of gradients
    bool wrote_narrow;
  };
  Called call(Slot slot, const Group& group, GradientRuns runs, double learning_rate,
              const GradientScale& scale);

  std::shared_ptr<const Layout> layout_;
  std::deque<UpdateRule> rules_;
  std::optional<MovingAverage> average_;  // of all weights
  std::vector<at::Tensor> shares_;        // what it moves by in this step, by loss
  at::Tensor master_, narrow_;
  int64_t begin_;
  at::Device device_;
  std::vector<Segment> segments_;                       // by offset
  std::map<std::pair<int64_t, int64_t>, Views> views_;  // by offset and length
  at::Tensor step_counts_;
  std::vector<at::Tensor> counts_;  // views of it: scalars
};

}  // namespace pipeline::strategies
