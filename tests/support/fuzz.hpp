// What a fuzz target requires of what came out.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace pipeline::tests {

inline void require(bool holds, const char* what = "what is required", const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  std::abort();
}

}  // namespace pipeline::tests
