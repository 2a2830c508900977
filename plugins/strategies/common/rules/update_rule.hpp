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

// What is updated in one call, all in float32: one-dimensional pieces of the arena, or whole tensors.
struct Update {
  std::vector<at::Tensor> weights, gradients;
  std::vector<std::vector<at::Tensor>> state;  // by kind, then as `weights`
  double learning_rate;
  at::Tensor step_count;  // with this one: a float32 scalar on the device
  const GradientScale& scale;
};

// How weights follow from gradients. A rule is a file beside this one, and a line in update_rule.cpp; README.md
// shows how to add one.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Names of the state that it keeps of each weight, zero at first. They are those of checkpoints (see pl_piece).
  virtual std::vector<std::string> kinds() const = 0;
  // Whether it needs tensors as a whole, in their shape. Otherwise the arena may be cut anywhere at multiples of
  // kRun, and the bits must not depend on where.
  virtual bool takes_tensors() const { return false; }
  // Changes weights and state in place; gradients may be overwritten.
  virtual void apply(const Update& update) const = 0;
};

// By its name. Throws Error for unknown names and invalid options.
std::unique_ptr<UpdateRule> make_rule(const OptimizerRule& options);

// The rules, each in its own file.
std::unique_ptr<UpdateRule> make_adamw(const OptimizerRule& options);
std::unique_ptr<UpdateRule> make_muon(const OptimizerRule& options);
std::unique_ptr<UpdateRule> make_sgd(const OptimizerRule& options);

// Throws unless option `what`, whose value this is, is as expected: "above 0".
void require_option(bool holds, const char* what, double value, const char* expected);

}  // namespace pipeline::strategies
