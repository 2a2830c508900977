// task.freeze: which parameters are not trained, by patterns of their names.
#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <string>
#include <vector>

namespace pipeline::adapters {

class Freeze {
 public:
  // Of fnmatch: "vision_model.*", "*.bias".
  explicit Freeze(const std::vector<std::string>& patterns)
      : patterns_(patterns), used_(patterns.size(), false) {}

  // For the rule of a registry, of each parameter.
  bool operator()(const std::string& name);
  // When all parameters are declared: what is wrong with the option; empty: nothing.
  std::string problem(const ParameterRegistry& parameters) const;

 private:
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
};

}  // namespace pipeline::adapters
