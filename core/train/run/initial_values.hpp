// Where parameters get their first values from: the task, one parameter at a time, so that no rank ever holds
// a whole model that it does not keep.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugins/task.hpp"

namespace pipeline::train {

// A plugins::PieceReader over Task::initialize.
class InitialValues {
 public:
  explicit InitialValues(plugins::Task& task);
  void operator()(const pl_piece& piece, void* destination);

 private:
  plugins::Task& task_;
  std::map<std::string_view, uint64_t> index_;
  uint64_t current_ = ~uint64_t{0};
  std::vector<float> value_;  // of parameter `current_`
};

uint64_t element_count(const pl_parameter& parameter);

}  // namespace pipeline::train
