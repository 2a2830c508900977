// What has become of a run: for `status` and `ls`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline::report {

// begun: by a process that is gone, before its first step. running: on this host; of a run on another host
// that shares the folder it cannot be seen. stopped: by a signal, after it was saved. cut_off: it failed or
// was killed; what was not saved will be done again. diverged: diverged.txt says how.
enum class RunState { begun, running, finished, diverged, stopped, cut_off };

RunState state_of(const std::filesystem::path& folder);

// "step-00000100"; empty: there is none.
std::string last_checkpoint(const std::filesystem::path& folder);

// The folders of the runs and their stages in `folder`, itself included, by name.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

struct RunList {
  std::string table;  // a line for each: state, step, loss, speed, last checkpoint, when it last wrote
  std::vector<std::string> problems;  // of the runs whose state is "unreadable"
};

// `folders` as find_runs() gives them.
RunList list_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace pipeline::report
