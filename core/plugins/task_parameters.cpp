// The half of plugins::Task that is about parameters: read once, checked, initialised.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "core/base/abi_values.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {
namespace {

constexpr uint32_t kMaxDimensions = 16;
constexpr uint32_t kParameterFlags = PL_PARAMETER_TRAINABLE | PL_PARAMETER_DECAY | PL_PARAMETER_NEW |
                                     PL_PARAMETER_DROPPABLE | PL_PARAMETER_HIDDEN_MATRIX |
                                     PL_FLAGS_MAY_IGNORE;

std::string parameter_problem(const pl_parameter& parameter) {
  if (view(parameter.name).empty()) return "has no name";
  if (parameter.ndim > kMaxDimensions)
    return fmt::format("has {} dimensions, at most {} are possible", parameter.ndim, kMaxDimensions);
  if (parameter.ndim > 0 && !parameter.shape)
    return fmt::format("has {} dimensions and a NULL shape", parameter.ndim);
  const std::span<const int64_t> shape(parameter.shape, parameter.ndim);
  for (int64_t extent : shape)
    if (extent < 1)
      return fmt::format("has the shape ({}), all extents must be at least 1", fmt::join(shape, ", "));
  if (parameter.flags & ~kParameterFlags)
    return fmt::format("flags {:#x} has bits that are unknown", parameter.flags);
  if ((parameter.flags & PL_PARAMETER_HIDDEN_MATRIX) && parameter.ndim != 2)
    return fmt::format("is said to be a matrix, and has the shape ({})", fmt::join(shape, ", "));
  if ((parameter.flags & PL_PARAMETER_TRAINABLE) &&
      !(parameter.lr_multiplier > 0 && std::isfinite(parameter.lr_multiplier)))
    return fmt::format("is trainable and its lr_multiplier is {}, must be above 0 (1 is normal)",
                       parameter.lr_multiplier);
  return {};
}

}  // namespace

uint64_t element_count(const pl_parameter& parameter) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < parameter.ndim; ++i) count *= static_cast<uint64_t>(parameter.shape[i]);
  return count;
}

const std::vector<pl_parameter>& Task::parameters() {
  if (!parameters_.empty()) return parameters_;
  const uint64_t count = call_.main("parameter_count", [&] { return api_.parameter_count(self_); });
  if (count == 0)
    throw Error(call_.plugin().label() +
                ": has no parameters, so there is nothing to train; parameter_count is read after open");
  std::vector<pl_parameter> read;
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) {
    auto parameter = sized<pl_parameter>();
    call_.main("parameter", [&] { return api_.parameter(self_, i, &parameter); });
    parameter.struct_size = sizeof parameter;  // the stride of the array that strategies are given
    std::string problem = parameter_problem(parameter);
    if (problem.empty() && !names.insert(view(parameter.name)).second)
      problem = "has the name of an earlier one";
    if (!problem.empty())
      throw Error(
          fmt::format("{}: parameter {} '{}' {}", call_.plugin().label(), i, view(parameter.name), problem));
    parameter.form = 0;
    read.push_back(parameter);
  }
  return parameters_ = std::move(read);
}

uint64_t Task::keep_frozen_in_bfloat16() {
  parameters();
  uint64_t elements = 0;
  for (pl_parameter& parameter : parameters_) {
    if (parameter.flags & PL_PARAMETER_TRAINABLE || !(parameter.forms & PL_FORM_BFLOAT16)) continue;
    parameter.form = PL_FORM_BFLOAT16;
    elements += element_count(parameter);
  }
  return elements;
}

void Task::initialize(uint64_t index, std::span<float> out) {
  const pl_parameter& parameter = parameters().at(index);
  if (element_count(parameter) != out.size())
    throw Error(fmt::format("initialize '{}': {} elements and room for {}", view(parameter.name),
                            element_count(parameter), out.size()));
  std::vector<int64_t> shape(parameter.shape, parameter.shape + parameter.ndim);
  pl_tensor tensor{};
  tensor.data = out.data();
  tensor.device = {PL_DEVICE_CPU, 0};
  tensor.ndim = static_cast<int32_t>(parameter.ndim);
  tensor.dtype = {PL_DTYPE_FLOAT, 32, 1};
  tensor.shape = shape.data();
  call_.main("initialize", [&] { return api_.initialize(self_, index, &tensor); });
}

}  // namespace pipeline::plugins
