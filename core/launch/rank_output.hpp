// What is left of a rank for when it dies: what it wrote to stdout and stderr, and its own log.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/socket.hpp"

namespace pipeline::launch {

// What a rank writes to stdout and stderr where it has no console: kept in a file of the run, and its last
// lines in memory. The rank's own log does not go this way.
class RankOutput {
 public:
  // `run_dir`/logs/rank-N.out; nothing is created before something is printed and the run has made its
  // folder.
  RankOutput(const std::filesystem::path& run_dir, int rank);

  int read_end() const { return pipe_.out.fd(); }  // -1: at its end
  int write_end() const { return pipe_.in.fd(); }
  void close_write() { pipe_.in.close(); }  // once the child has it

  void drain();  // takes what is there, without waiting
  std::vector<std::string> tail(size_t lines) const;

 private:
  void keep(const std::string& text);

  std::filesystem::path file_;
  Pipe pipe_;
  std::string unwritten_;  // until there is a folder
  std::string last_;       // the last bytes, of all
};

// The last lines of a rank's own log, for when it dies.
struct LogTail {
  std::filesystem::path file;  // empty: none was written since
  std::vector<std::string> lines;
};

// The newest logs/rank-N.log in the run's folder or in that of one of its stages, if it was written after
// `since`.
LogTail log_tail(const std::filesystem::path& run_dir, int rank, std::filesystem::file_time_type since,
                 size_t lines);

}  // namespace pipeline::launch
