// What a rank writes to stdout and stderr where it has no console: kept in a file of the run, and its last
// lines for when it dies. The rank's own log does not go this way.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline::launch {

class RankOutput {
 public:
  // `run_dir`/logs/rank-N.out; nothing is created before something is printed and the run has made its
  // folder.
  RankOutput(const std::filesystem::path& run_dir, int rank);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  int read_end() const { return ends_[0]; }  // -1: at its end
  int write_end() const { return ends_[1]; }
  void close_write();  // once the child has it

  void drain();  // takes what is there, without waiting
  std::vector<std::string> tail(size_t lines) const;

 private:
  void keep(const std::string& text);

  std::filesystem::path file_;
  int ends_[2] = {-1, -1};
  std::string unwritten_;  // until there is a folder
  std::string last_;       // the last bytes, of all
};

}  // namespace pipeline::launch
