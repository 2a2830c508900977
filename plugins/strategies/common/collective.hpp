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

// A contiguous tensor, filled on this thread's stream, as collectives take it; its memory must live until the
// work is waited for.
inline pl_buffer to_buffer(const at::Tensor& tensor) {
  return buffer(tensor.data_ptr(), static_cast<uint64_t>(tensor.numel()), to_pl(tensor.scalar_type()),
                to_pl(tensor.device()), current_stream(tensor.device()));
}

// The greatest of each value over all ranks, told from host to host: nobody waits for a device. All ranks
// make the same calls of one name in the same order, with equally many values.
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
