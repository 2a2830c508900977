#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <pipeline/context.hpp>

namespace pipeline::strategies {

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
