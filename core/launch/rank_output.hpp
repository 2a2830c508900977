// What remains of a rank that died: what it wrote to stdout and stderr, and its own log.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/socket.hpp"

namespace pipeline::launch {

// What a rank without a console writes to stdout and stderr: kept in a file of the run, its last lines also
// in memory. The rank's own log is separate.
class RankOutput {
 public:
  // Writes to `run_dir`/logs/rank-N.out, created once something is printed and the run's folder exists.
  RankOutput(const std::filesystem::path& run_dir, int rank);

  int read_end() const { return pipe_.out.fd(); }  // -1: at end of file
  int write_end() const { return pipe_.in.fd(); }
  void close_write() { pipe_.in.close(); }  // once the child has it

  void drain();  // reads what is available, without blocking
  std::vector<std::string> tail(size_t lines) const;

 private:
  void keep(const std::string& text);

  std::filesystem::path file_;
  Pipe pipe_;
  std::string unwritten_;  // until there is a folder
  std::string last_;       // the last bytes of all output
};

// The last lines of a rank's own log.
struct LogTail {
  std::filesystem::path file;  // empty: none was written
  std::vector<std::string> lines;
};

// Reads the newest logs/rank-N.log in the folder of the run or of a stage, if written after `since`.
LogTail log_tail(const std::filesystem::path& run_dir, int rank, std::filesystem::file_time_type since,
                 size_t lines);

}  // namespace pipeline::launch
