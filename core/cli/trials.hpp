// Runs that are made to be compared: each a `pipeline run` of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/launch/process.hpp"
#include "core/observe/console.hpp"

namespace pipeline::cli {

struct Trial {
  std::string name;                    // "sharded3-4"
  std::vector<std::string> arguments;  // after `pipeline run`
  std::filesystem::path folder;        // run.dir
  uint64_t steps = 0;                  // 0: not known beforehand, so it runs in one go
  int code = 0;                        // how its last part ended
  std::string problem;                 // why it failed, if it did
};

// Brings trials to step `until`, or to their end if that is 0, as many at a time as there are places; a place
// is the value of CUDA_VISIBLE_DEVICES for what runs there, or "" for that of this process. `what`: this
// part, for people. Returns false if a signal ended it, as below.
bool run_parts(const std::vector<Trial*>& trials, uint64_t until, const std::vector<std::string>& places,
               const std::string& what, launch::SignalPipe& signals, observe::Console& console);

// Runs what has not run. In each round every trial goes on by its share of the steps and saves, so that what
// else the machine does meets all alike. Output goes to FOLDER.log. Returns false if a signal ended it: what
// was done is saved, and the next call goes on there.
bool run_in_turns(std::vector<Trial>& trials, unsigned rounds, observe::Console& console);

}  // namespace pipeline::cli
