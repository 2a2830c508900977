// A file of one JSON object a line, appended to as a run goes on. A line is there whole or not at all: what a
// full disk refused is kept and tried again with the next line, and a line that a kill cut short is dropped
// when the run continues.
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

  // False: the disk refused (errno in last_error()); the line is kept for the next try.
  bool append(const nlohmann::ordered_json& line);
  // Lines that could not be written yet.
  uint64_t pending() const { return pending_lines_; }
  int last_error() const { return error_; }

  // Whether a line has this integer under `key`.
  static bool contains(const std::filesystem::path& file, const std::string& key, uint64_t value);
  // Keeps the whole lines whose integer `key` is below `limit`, in place and atomically. A missing file is
  // fine. Returns how many lines were no such objects, and are gone.
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
