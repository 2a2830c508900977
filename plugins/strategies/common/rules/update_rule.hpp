#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pipeline/strategy.hpp>

namespace pipeline::strategies {

// Common to all gradients of a step; float32 scalars on the device. nullopt: nothing to do.
struct GradientScale {
  std::optional<at::Tensor> divisor;    // gradients are divided by it first
  std::optional<at::Tensor> found_inf;  // 1: change nothing, not even the step count
};

// What is updated in one call, all in float32: one-dimensional runs of the arena. It may be cut anywhere at
// multiples of kRun, and no bit may depend on where.
struct Update {
  std::vector<at::Tensor> weights, gradients;
  std::vector<std::vector<at::Tensor>> state;  // by kind, then as `weights`
  double learning_rate;
  at::Tensor step_count;  // with this one: a float32 scalar on the device
  const GradientScale& scale;
};

// How weights follow from gradients. A rule is a file beside this one, and a line in update_rule.cpp;
// README.md shows how to add one.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Names of the state that it keeps of each weight, zero at first. They are those of checkpoints (see
  // pl_piece).
  virtual std::vector<std::string> kinds() const = 0;
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
