// Time that only goes on.
#pragma once

#include <chrono>

namespace pipeline {

// Monotonic seconds. For measuring only: no result may depend on it.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace pipeline
