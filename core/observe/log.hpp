// The run's log: finished lines to the console (rank 0 only), to train.log and to this rank's own file.
// Thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/observe/console.hpp"

namespace spdlog {
class logger;
}

namespace pipeline::observe {

enum class Level { debug, info, warning, error };

class Log {
 public:
  // `console` must outlive the log.
  Log(Console& console, Level level);
  ~Log();

  // Starts to append to the files of a run folder: `train.log` (rank 0) and `logs/rank-N.log`. The lines
  // logged so far go there, too. Throws std::runtime_error.
  void open_files(const std::filesystem::path& run_dir, int rank);

  void write(Level level, std::string_view line);
  void debug(std::string_view line) { write(Level::debug, line); }
  void info(std::string_view line) { write(Level::info, line); }
  void warning(std::string_view line) { write(Level::warning, line); }

  // Writes to the files only, for what the console shows by other means.
  void file_only(std::string_view line) { to_files(Level::info, line); }

  Console& console() { return console_; }
  void flush();

 private:
  void to_files(Level level, std::string_view line);

  struct Early {
    Level level;
    std::string line;
  };

  Console& console_;
  Level level_;
  std::mutex mutex_;  // guards files_ and early_
  std::shared_ptr<spdlog::logger> files_;
  std::vector<Early> early_;  // lines from before open_files
};

}  // namespace pipeline::observe
