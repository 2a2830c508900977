// A file of one JSON object per line, appended to during a run. A line is complete or absent: what a full
// disk refused is kept and retried with the next line, and a line that a kill cut short is dropped when the
// run continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace pipeline::observe {

class JsonLines {
 public:
  // Opens for appending; creates the file. Throws std::system_error.
  explicit JsonLines(std::filesystem::path file);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  // False: the write failed (errno in last_error()); the line is kept for the next try.
  bool append(const nlohmann::ordered_json& line);
  // Number of lines not yet written.
  uint64_t pending() const { return pending_lines_; }
  int last_error() const { return error_; }

  // Whether a line has the integer `value` under `key`.
  static bool contains(const std::filesystem::path& file, const std::string& key, uint64_t value);
  // Keeps only the complete lines whose integer `key` is below `limit`, in place and atomically. A missing
  // file is fine. Returns how many lines were dropped because they were not such objects.
  static uint64_t cut_back(const std::filesystem::path& file, const std::string& key, uint64_t limit);

 private:
  bool flush();

  std::filesystem::path file_;
  int descriptor_;
  std::string buffer_;
  uint64_t pending_lines_ = 0;
  int error_ = 0;
};

}  // namespace pipeline::observe
