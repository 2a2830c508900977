#pragma once

#include <pipeline/optimizer.hpp>
#include <pipeline/strategy.hpp>
#include <pipeline/torch/tensor.hpp>

#include <string_view>

namespace pipeline::strategies {

// A rule that strategies have themselves. It is written as that of a plugin is, and its options are numbers
// of pl_optimizer: README.md shows how to add one.
struct BuiltIn {
  std::string_view name;
  const void* (*api)();
  pl_update_rule* (*make)(const Context& context, const OptimizerRule& rule);  // throws Error
};

// The built-in rule that a class over pipeline::Optimizer makes.
template <class T>
constexpr BuiltIn built_in(std::string_view name) {
  return {name, OptimizerTable<T>::api, [](const Context& context, const OptimizerRule& rule) {
            std::vector<std::string_view> names;
            for (const pl_option& option : schema_of<typename T::Config>()) names.push_back(view(option.key));
            names.push_back("weight_decay");
            rule.require_options(names);
            typename T::Config config;
            Options reader(rule.options);
            config.describe(reader);
            config.validate(ConfigErrors(nullptr));
            return OptimizerTable<T>::make({context, config});
          }};
}

// The rules, each in its own file.
extern const BuiltIn kAdamW, kMuon, kSgd;

// The tensors of the runs that a rule of this library is called with, for kernels that take them all.
// to_torch() would make new ones, with two allocations for each parameter in each step.
at::TensorList tensors(std::span<const pl_tensor> runs);

// The weights of all runs in fewer bits, with which the task computes, for a rule that writes those, too: one
// that asks must. Empty: there are none.
at::TensorList narrow_weights();

// Throws unless option `what`, whose value this is, is as expected: "above 0".
inline void require_option(bool holds, const char* what, double value, const char* expected) {
  if (!holds) fail_with(PL_ERROR_CONFIG, "optimizer.", what, " = ", value, ": must be ", expected);
}

}  // namespace pipeline::strategies
