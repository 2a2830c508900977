#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::proteins {

struct ClusterCache {
  std::string folder;
  // Both functions may be empty. note: a line for the log. cancelled: true ends a wait for another process
  // with files::Cancelled.
  std::function<void(const std::string&)> note;
  std::function<bool()> cancelled;

  // What compute() gives, `count` numbers, kept in a file of the folder under `key`: for large sets comparing
  // sequences takes a while. Of several processes one computes and the others wait for it. A file that is
  // damaged is made again; one that cannot be written is done without, and the log says so.
  std::vector<uint32_t> get(const files::Hash128& key, size_t count,
                            const std::function<std::vector<uint32_t>()>& compute) const;
};

}  // namespace pipeline::proteins
