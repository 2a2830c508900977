// The last lines of a rank's own log, for when it dies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline::launch {

struct LogTail {
  std::filesystem::path file;  // empty: none was written since
  std::vector<std::string> lines;
};

// The newest logs/rank-N.log in the run's folder or in that of one of its stages, if it was written after
// `since`.
LogTail log_tail(const std::filesystem::path& run_dir, int rank, std::filesystem::file_time_type since,
                 size_t lines);

}  // namespace pipeline::launch
