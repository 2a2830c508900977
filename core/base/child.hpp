#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace pipeline {

// What became of a child process.
struct ChildResult {
  bool ok = false;
  std::string value;    // what `work` returned, when ok
  std::string problem;  // otherwise: what it threw, the signal that ended it, or that it took too long
  std::string output;   // what it wrote to stdout and stderr
};

// Runs `work` in a forked child that is killed after `limit`, so that code that crashes, hangs or prints does
// no harm here. The child ends without running destructors of statics. To be called while this process has
// one thread.
ChildResult run_in_child(std::chrono::milliseconds limit, const std::function<std::string()>& work);

}  // namespace pipeline
