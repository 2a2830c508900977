// A file of one JSON object per line, appended to during a run. A line is complete or absent: what a full
// disk refused is kept and retried with the next line, and a line that a kill cut short is dropped when the
// run continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/observe/append_file.hpp"

namespace pipeline::observe {

class JsonLines {
 public:
  // Opens for appending; creates the file. Throws std::system_error.
  explicit JsonLines(const std::filesystem::path& file) : file_(file) {}

  // False: the write failed (errno in last_error()); the line is kept for the next try.
  bool append(const nlohmann::ordered_json& line);
  // Number of lines not yet written.
  uint64_t pending() const { return file_.pending(); }
  int last_error() const { return file_.last_error(); }

  // Whether a line has the integer `value` under `key`.
  static bool contains(const std::filesystem::path& file, const std::string& key, uint64_t value);
  // Keeps only the complete lines whose integer `key` is below `limit`, in place and atomically. A missing
  // file is fine. Returns how many lines were dropped because they were not such objects.
  static uint64_t cut_back(const std::filesystem::path& file, const std::string& key, uint64_t limit);

 private:
  AppendFile file_;
};

}  // namespace pipeline::observe
