#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace pipeline::config {

// Where a value comes from, as shown in messages and in the resolved config.
struct Origin {
  // kChange: by --change; kChanged: by --change in an earlier launch of the run.
  enum class Kind { kDefault, kFile, kSet, kModel, kChange, kChanged };

  Kind kind = Kind::kDefault;
  std::string file;  // as the user wrote it; kModel: what describes the model; otherwise empty
  int line = 0;      // 1-based; 0: the file as a whole
  int order = 0;     // of the file, as read: problems are listed in this order, then by line
  std::string set;   // the whole argument of --set or --change; of kChanged, when that was: "after step 40"
  bool is_auto = false;  // "auto" was given there, and the value found for it
  std::string base;      // what a path there is relative to; empty: where the program was started
  bool kept = false;     // by a run, which keeps every value in force: one that is the default was not set
  std::string followed;  // kModel: the value as it is there, where a path is relative to another folder

  // "configs/x.toml:14", "--set train.max_steps=20", "gpt2/config.json" or "default"; "configs/x.toml:14
  // (auto)".
  std::string describe() const;
  bool is_argument() const { return kind == Kind::kSet || kind == Kind::kChange; }
};

// What is wrong with a configuration: every problem found, one line each, of the form `file:line: key =
// value: problem: remedy`, in the order of the files. what() joins the lines with newlines. code() is
// PL_ERROR_CONFIG.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::string problem);
  explicit ConfigError(std::vector<std::string> problems);

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

// `origin: key = value: problem`. `value` is TOML source; empty: the key has none.
std::string format_problem(const Origin& origin, std::string_view key, std::string_view value,
                           std::string_view problem);

// Collects problems, so that a user sees all of them at once.
class Problems {
 public:
  // Keeps a repeated line once (a value that several stages inherit).
  void add(const Origin& origin, std::string line);
  void add(const Origin& origin, std::string_view key, std::string_view value, std::string_view problem) {
    add(origin, format_problem(origin, key, value, problem));
  }
  bool empty() const { return entries_.empty(); }
  // Throws ConfigError with all lines added, ordered by file and line; command-line values last.
  void throw_if_any() const;

 private:
  struct Entry {
    Origin origin;
    std::string line;
  };
  std::vector<Entry> entries_;
};

}  // namespace pipeline::config
