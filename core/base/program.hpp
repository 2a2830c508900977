#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline {

// This program as it was started: bin/pipeline, or a process of someone else's, such as Python, that has
// loaded libpipeline.so.
struct Program {
  std::filesystem::path prefix;      // where it is installed: the folder of bin/ and lib/
  std::vector<std::string> command;  // what starts it, before the verb; never empty
  std::vector<std::string> arguments;
};

// Until set_program() is called: the executable of this process, without arguments. [any-thread]
const Program& program();
// Before other threads run.
void set_program(Program program);

}  // namespace pipeline
