#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>
#include <pipeline/torch/runtime.hpp>

namespace pipeline::strategies {

// Returns a contiguous tensor, written on this thread's stream, as a buffer for collectives. Its memory
// must live until the work has been waited for; `label`, which traces show, until it has been started.
inline pl_buffer to_buffer(const at::Tensor& tensor, std::string_view label = {}) {
  return buffer(tensor.data_ptr(), static_cast<uint64_t>(tensor.numel()), to_pl(tensor.scalar_type()),
                to_pl(tensor.device()), current_stream(tensor.device()), label);
}

// Replaces each value by its maximum over all ranks, exchanged between hosts: does not wait for the device.
// All ranks make the same calls under one name, in the same order, with the same number of values.
template <class T>
void maximum_over_hosts(const Context& context, std::string_view name, std::vector<T>& values) {
  const std::string_view mine(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  for (const std::string& given : context.exchange(name, mine)) {
    if (given.size() != mine.size())
      fail(name, ": a rank gives ", given.size(), " bytes, this one ", mine.size());
    for (size_t i = 0; i < values.size(); ++i) {
      T theirs;
      std::memcpy(&theirs, given.data() + i * sizeof(T), sizeof(T));
      values[i] = std::max(values[i], theirs);
    }
  }
}

}  // namespace pipeline::strategies
