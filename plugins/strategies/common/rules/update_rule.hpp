#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/rules/state_form.hpp"

namespace pipeline::strategies {

// Common to all gradients of a step; float32 scalars on the device. nullopt: nothing to do.
struct GradientScale {
  std::optional<at::Tensor> divisor;    // gradients are divided by it first
  double limit = 0;                     // then each element is limited to this size; 0: it is not
  std::optional<at::Tensor> found_inf;  // 1: change nothing, not even the step count
};

// By loss: what goes for its gradients in a step. nullopt: it has no turn, and nothing of its weights
// changes.
using LossScales = std::vector<std::optional<GradientScale>>;

// What is updated in one call: one-dimensional runs of the arena. It may be cut anywhere at multiples of
// kRun, and no bit may depend on where.
struct UpdateRuns {
  size_t count;
  // All their gradients, which may be overwritten, all weights, and the state kind by kind.
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> scales;  // of the state
  // The weights in the fewer bits that the task computes with; empty: in none. Few rules write them, too.
  std::vector<at::Tensor> narrow;
  bool wrote_narrow = false;
  double learning_rate;
  at::Tensor step_count;  // with this one: a float32 scalar on the device
  const GradientScale& scale;
  // Where a run begins among the unit's trained elements. The same for every strategy and number of ranks.
  struct Place {
    uint32_t unit;
    int64_t first;
  };
  std::vector<Place> places;
};

// How weights follow from gradients: a rule of a plugin, or one of this library, behind pl_optimizer_api.
// What is the same for all is done here: state in fewer bits, and what a rule without
// PL_OPTIMIZER_TAKES_SCALE leaves to its strategy.
class UpdateRule {
 public:
  // Throws Error for unknown names and invalid options.
  UpdateRule(const Context& context, OptimizerRule options);

  // What the rule keeps of each weight, zero at first.
  const std::vector<StateKind>& kinds() const { return kinds_; }
  // Whether the rule sees matrices whole, between directions() and update(); strategies may hold pieces.
  bool is_of_matrices() const { return api_.transform != nullptr; }

  // Changes weights and state in place. For a rule of matrices the gradients are the transformed directions,
  // and no longer scaled.
  void update(UpdateRuns& runs) const { call(api_.update, runs); }
  // Moves the state; what transform() is to see takes the gradients' place.
  void directions(UpdateRuns& runs) const;
  // Transforms in place; `matrix` has the parameter's shape and is contiguous.
  void transform(const at::Tensor& matrix) const;

 private:
  using Tensors = std::vector<at::Tensor>;
  using Slot = pl_error* (*)(pl_update_rule*, const pl_update_args*);

  void call(Slot slot, UpdateRuns& runs) const;
  void call_piece(Slot slot, const UpdateRuns& runs, size_t run, int64_t begin, int64_t length) const;
  bool call_table(Slot slot, size_t count, const Tensors& values, const UpdateRuns& runs,
                  at::TensorList narrow = {}) const;

  pl_optimizer_api api_{};
  pl_update_rule* rule_ = nullptr;
  std::shared_ptr<pl_update_rule> own_;  // null: the plugin's
  bool takes_scale_ = false, is_narrow_ = false;
  double weight_decay_ = 0;
  std::vector<StateKind> kinds_;
};

// The exponential moving average of weights (EMA): average = decay average + (1 - decay) weights after every
// `every`-th update behind `start`; up to there, and after the first update, it is the weights. As
// torch.optim.swa_utils with get_ema_avg_fn(decay).
class MovingAverage {
 public:
  // Takes what the rule's options say of it out of them; none: there is no average.
  static std::optional<MovingAverage> take(OptimizerRule& rule);

  // What the average moves by after an update, of which `step_count` has that many: a scalar on the device.
  at::Tensor share(const at::Tensor& step_count, const GradientScale& scale) const;

  static constexpr const char* kKind = "ema";

 private:
  double decay_ = 0;
  int64_t every_ = 1, start_ = 0;
};

}  // namespace pipeline::strategies
