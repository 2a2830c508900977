#pragma once

#include <string>

namespace pipeline::config {

// Where a value comes from, as messages and the resolved config name it.
struct Origin {
  enum class Kind { kDefault, kFile, kSet };

  Kind kind = Kind::kDefault;
  std::string file;  // as the user wrote it; empty unless kFile
  int line = 0;      // 1-based; 0: the file as a whole
  int order = 0;     // of the file, in the order of reading: problems are listed in this order, then by line
  std::string set;   // the argument of --set, whole; empty unless kSet

  // "configs/x.toml:14", "--set train.max_steps=20" or "default".
  std::string describe() const;
};

}  // namespace pipeline::config
