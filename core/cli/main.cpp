#include <cstdio>
#include <cstdlib>

#include "core/cli/embedding.h"

// LibTorch takes its thousands of operators down one by one at exit, which is a third of a short command's
// time, so the process ends without that. A tool that was loaded into it, such as a profiler or a sanitizer,
// may write then what it has seen.
static bool has_tool() {
#ifdef PIPELINE_SANITIZED
  return true;
#else
  return std::getenv("LD_PRELOAD") || std::getenv("CUDA_INJECTION64_PATH");
#endif
}

int main(int argc, char** argv) {
  const int code = pipeline_main(argc, argv, nullptr);
  pipeline_end();
  if (has_tool()) return code;
  std::fflush(nullptr);
  std::_Exit(code);
}
