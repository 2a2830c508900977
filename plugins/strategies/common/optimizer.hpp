#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Common to all gradients of a step; float32 scalars on the device. nullopt: nothing to do.
struct GradientScale {
  std::optional<at::Tensor> divisor;    // gradients are divided by it first
  std::optional<at::Tensor> found_inf;  // 1: change nothing, not even the step count
};

// A tensor of the optimizer's state, of the same length and order as the master weights.
struct OptimizerState {
  std::string kind;  // "exp_avg"
  at::Tensor values;
};

// The update rule over (a shard of) the flat arena, in float32. Uses PyTorch's fused kernels: one pass over
// weights, gradients and state, which also scales the gradients.
class Optimizer {
 public:
  // Where the state is kept: with the weights, or in pinned host memory, from which it is copied to the
  // device and back for each update.
  enum class StateIn { kDevice, kPinnedHost };

  // `rules`: by Group::optimizer, all of one name. `master`: the weights of the arena from element `begin`
  // on. Throws Error for invalid options.
  static std::unique_ptr<Optimizer> create(const std::vector<OptimizerRule>& rules, at::Tensor master,
                                           int64_t begin, StateIn state_in = StateIn::kDevice);
  virtual ~Optimizer() = default;

  const std::vector<OptimizerState>& state() const { return state_; }

  // Updates done: a float32 scalar on the device, used in the bias correction.
  at::Tensor& step_count() { return step_count_; }
  void set_step_count(int64_t count) { step_count_.fill_(count); }

  // Once per step, before update().
  void advance(const GradientScale& scale);
  // The runs belong to groups that are updated as `group` is, and lie within the master weights.
  void update(const Group& group, const GradientRuns& runs, double learning_rate, const GradientScale& scale);

 protected:
  Optimizer(at::Tensor master, int64_t begin, StateIn state_in, const std::vector<std::string>& kinds);

  struct Lists {
    std::vector<at::Tensor> weights, gradients;
    std::vector<std::vector<at::Tensor>> state;  // as in state_
  };
  virtual void apply(const Lists& lists, double learning_rate, uint32_t rule, const GradientScale& scale) = 0;

 private:
  // What belongs to a run. Made once, because the runs of most steps are the same: a device would wait for
  // the host that makes three views of each parameter in each step.
  struct Views {
    at::Tensor weights;
    std::vector<at::Tensor> state;  // where it is kept, as in state_
  };
  const Views& views_of(const GradientRun& run);

  at::Tensor master_;
  int64_t begin_;
  std::map<std::pair<int64_t, int64_t>, Views> views_;  // by offset and length
  std::vector<OptimizerState> state_;
  at::Tensor step_count_;
};

}  // namespace pipeline::strategies
