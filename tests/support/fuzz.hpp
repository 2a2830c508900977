// What a fuzz target requires of what came out.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace pipeline::tests {

inline void require(bool holds, const char* what = "what is required",
                    const std::source_location& where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: does not hold: %s\n", where.file_name(), where.line(), what);
  std::abort();
}

}  // namespace pipeline::tests
