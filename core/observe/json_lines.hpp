// A file of one JSON object per line, appended to during a run. A line is complete or absent: what a full
// disk refused is kept and retried with the next line, and a line that a kill cut short is dropped when the
// run continues.
//
// JSON has no numbers that are not finite: they are written as the words "NaN", "Infinity" and "-Infinity".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace pipeline::observe {

// A file that is appended to, one whole record at a time: what a full disk refused is kept and retried with
// the next record.
class AppendFile {
 public:
  // Opens for appending; creates the file. Throws std::system_error.
  explicit AppendFile(const std::filesystem::path& file);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // False: the write failed (errno in last_error()); the record is kept for the next try.
  bool append(std::string_view record);
  // Number of records not yet written.
  uint64_t pending() const { return pending_; }
  int last_error() const { return error_; }
  // False: somebody has removed the file or put another in its place, which gets no more records.
  bool is_still_there() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  bool flush();

  std::filesystem::path path_;
  int descriptor_;
  std::string buffer_;
  uint64_t pending_ = 0;
  int error_ = 0;
};

// A number as JSON has it: itself, or one of the words above.
nlohmann::ordered_json json_of(double value);

// The number that a line has under a name, or one of the words above; null is NaN. nullopt: it is none.
std::optional<double> figure_of(const nlohmann::ordered_json& value);

class JsonLines {
 public:
  // Opens for appending; creates the file. Throws std::system_error.
  explicit JsonLines(const std::filesystem::path& file) : file_(file) {}

  // False: the write failed (errno in last_error()); the line is kept for the next try.
  bool append(const nlohmann::ordered_json& line);
  // Number of lines not yet written.
  uint64_t pending() const { return file_.pending(); }
  int last_error() const { return file_.last_error(); }
  const AppendFile& file() const { return file_; }

  using Use = std::function<void(size_t line, const nlohmann::ordered_json& object)>;
  // Hands over each line, also of other programs: NaN, Infinity and -Infinity may stand there as Python
  // writes them. Blank lines are skipped. A last line that is broken and has no end was cut short, or is
  // being written: its number is returned; 0: there is none. Throws Error (PL_ERROR_CONFIG) with the file and
  // line of any other that is no JSON object.
  static size_t read(const std::filesystem::path& file, const Use& use);
  static size_t read(std::istream& in, const std::string& name, const Use& use);

  // As above, the lines that begin in the last `bytes` of the file alone, counted from there.
  static size_t read_end(const std::filesystem::path& file, uint64_t bytes, const Use& use);

  // Whether a line has the integer `value` under `key`.
  static bool contains(const std::filesystem::path& file, const std::string& key, uint64_t value);
  // Keeps only the complete lines whose integer `key` is below `limit`, in place and atomically. A missing
  // file is fine. Returns how many lines were dropped because they were not such objects.
  static uint64_t cut_back(const std::filesystem::path& file, const std::string& key, uint64_t limit);

 private:
  AppendFile file_;
};

}  // namespace pipeline::observe
