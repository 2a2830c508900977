#include "core/train/run/initial_values.hpp"

#include <cstring>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/str.hpp"

namespace pipeline::train {

uint64_t element_count(const pl_parameter& parameter) {
  uint64_t count = 1;
  for (uint32_t d = 0; d < parameter.ndim; ++d) count *= static_cast<uint64_t>(parameter.shape[d]);
  return count;
}

InitialValues::InitialValues(plugins::Task& task) : task_(task) {
  const auto& parameters = task.parameters();
  for (uint64_t i = 0; i < parameters.size(); ++i) index_.emplace(view(parameters[i].name), i);
}

void InitialValues::operator()(const pl_piece& piece, void* destination) {
  const auto found = index_.find(view(piece.parameter));
  if (found == index_.end() || view(piece.kind) != "value" || piece.dtype.code != PL_DTYPE_FLOAT ||
      piece.dtype.bits != 32)
    throw Error(fmt::format(
        "the strategy asked for the initial {} of '{}', and there are only float32 values of parameters",
        view(piece.kind), view(piece.parameter)));
  if (current_ != found->second) {
    current_ = found->second;
    value_.resize(element_count(task_.parameters()[current_]));
    task_.initialize(current_, value_);
  }
  if (piece.offset + piece.count > value_.size())
    throw Error(fmt::format("the strategy asked for elements {} to {} of '{}', which has {}", piece.offset,
                            piece.offset + piece.count, view(piece.parameter), value_.size()));
  std::memcpy(destination, value_.data() + piece.offset, piece.count * sizeof(float));
}

}  // namespace pipeline::train
