#pragma once

#include <span>
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

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps
// of neighbours. Ignores case and the difference between - and _.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate of which `name` is most likely a misspelling; "" if none is near (at most a third of the
// characters wrong).
std::string closest(std::string_view name, std::span<const std::string> candidates);

// "a", "a or b", "a, b or c".
std::string alternatives(std::span<const std::string> names);

// "did you mean a?", or, where none is near, "there is a, b or c".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

// Translates names used by other tools: Accelerate, DeepSpeed, Lightning, transformers, torchtitan,
// nanoGPT. Of a dotted key the longest known suffix counts, so that a name is found in any table. Returns
// what to write instead, beginning with our key ("train.max_epochs"), or "".
std::string_view our_name_for_key(std::string_view foreign_key);
// The name of another tool's key that `key` is most likely a misspelling of, for our_name_for_key; "" if none
// is near and closer than `limit`.
std::string_view closest_foreign_key(std::string_view key, size_t limit);
// Why there is no such option, and what to do instead: other tools make optional what is always so here, or
// have what is not here. Empty: nothing is known of it.
std::string_view why_needless(std::string_view foreign_key);
// What to write instead of another tool's value: "adamw_8bit" -> "write "adamw" with ..."; or empty.
std::string_view our_value_for(std::string_view foreign_value);

// Translates other tools' names of tables: "training" -> "[train]".
std::string_view our_name_for_table(std::string_view foreign_table);

// Translates words of a command line: "fit" -> "run"; "nproc_per_node", of --nproc_per_node, -> our key, or
// what to do instead.
std::string_view our_name_for_verb(std::string_view foreign_verb);
std::string_view our_name_for_option(std::string_view foreign_option);

}  // namespace pipeline::config
