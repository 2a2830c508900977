#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/rules/state_form.hpp"

namespace pipeline::strategies {

// Common to all gradients of a step; float32 scalars on the device. nullopt: nothing to do.
struct GradientScale {
  std::optional<at::Tensor> divisor;    // gradients are divided by it first
  double limit = 0;                     // then each element is limited to this size; 0: it is not
  std::optional<at::Tensor> found_inf;  // 1: change nothing, not even the step count
};

// What is updated in one call, all in float32: one-dimensional runs of the arena. It may be cut anywhere at
// multiples of kRun, and no bit may depend on where.
struct Update {
  std::vector<at::Tensor> weights, gradients;
  std::vector<std::vector<Kept>> state;  // by kind, then as `weights`
  double learning_rate;
  at::Tensor step_count;  // with this one: a float32 scalar on the device
  const GradientScale& scale;
  // Where a run begins: of the unit's trained elements. The same for every strategy and number of ranks.
  struct Place {
    uint32_t unit;
    int64_t first;
  };
  std::vector<Place> places;

  // A kind's values, as `weights`.
  std::vector<at::Tensor> values(size_t kind) const {
    std::vector<at::Tensor> all;
    for (const Kept& kept : state[kind]) all.push_back(kept.values);
    return all;
  }
};

// How weights follow from gradients. A rule is a file beside this one, and a line in update_rule.cpp;
// README.md shows how to add one.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // What it keeps of each weight, zero at first.
  virtual std::vector<StateKind> kinds() const = 0;
  // Null for a rule of elements: apply() is all of it.
  virtual const class TensorRule* of_tensors() const { return nullptr; }
  // Changes weights and state in place; gradients may be overwritten.
  virtual void apply(const Update& update) const = 0;
};

// A rule in which a weight's step depends on the whole tensor. What it does element by element comes before
// and after that, so that a strategy may keep tensors in pieces and exchange what must be seen whole.
class TensorRule : public UpdateRule {
 public:
  const TensorRule* of_tensors() const final { return this; }
  void apply(const Update& /*update*/) const final {}

  // Moves the state; returns what transformed() is to see, run by run, with zeros where gradients are zero.
  virtual std::vector<at::Tensor> directions(const Update& update) const = 0;
  // Of a tensor of directions, in the parameter's shape and contiguous; so is the result.
  virtual at::Tensor transformed(const at::Tensor& directions) const = 0;
  // Changes the weights by what that returned, run by run.
  virtual void move(const Update& update, const std::vector<at::Tensor>& transformed) const = 0;
};

// By its name. Throws Error for unknown names and invalid options.
std::unique_ptr<UpdateRule> make_rule(const OptimizerRule& options);

// The rules, each in its own file.
std::unique_ptr<UpdateRule> make_adamw(const OptimizerRule& options);
std::unique_ptr<UpdateRule> make_muon(const OptimizerRule& options);
std::unique_ptr<UpdateRule> make_plugin_rule(const OptimizerRule& options);
std::unique_ptr<UpdateRule> make_sgd(const OptimizerRule& options);

// Throws unless option `what`, whose value this is, is as expected: "above 0".
void require_option(bool holds, const char* what, double value, const char* expected);

}  // namespace pipeline::strategies
