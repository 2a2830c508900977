// task.freeze: which parameters are not trained, by patterns of their names.
#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <string>
#include <vector>

namespace pipeline::adapters {

class Freeze {
 public:
  // Patterns of fnmatch: "vision_model.*", "*.bias".
  explicit Freeze(const std::vector<std::string>& patterns)
      : patterns_(patterns), used_(patterns.size(), false) {}

  // Whether a parameter is frozen. A registry's rule asks it for each.
  bool operator()(const std::string& name);
  // To be asked when all parameters are declared: what is wrong with the option; empty: nothing.
  std::string problem(const ParameterRegistry& parameters) const;

 private:
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
};

}  // namespace pipeline::adapters
