#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/error.hpp"
#include "core/config/option.hpp"

namespace pipeline::config {

struct Entry {
  Literal value;
  Origin origin;
};

// A tree of TOML tables, flattened: values by dotted key, and the tables themselves, so that an unknown
// empty table is noticed. Keys that need quotes in TOML stay quoted, so they match no option.
struct Table {
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::string, Origin, std::less<>> tables;
  // The tables that are arrays, [[key]]: each is a value, as a list is.
  std::set<std::string, std::less<>> arrays = {};

  // Adds the values of `other`, which replace those here; an array of tables replaces all below its key.
  void merge(const Table& other);
};

// One [[stage]].
struct StageTable {
  Origin origin;
  Table table;  // name, kind, init_from and the tables it overrides
};

// One parsed TOML text.
struct Document {
  Table root;  // without these:
  std::optional<Entry> extends;
  std::optional<Entry> started_in;           // of a configuration that a run keeps
  std::optional<Entry> stage_value;          // `stage` if it is neither a table nor an array of tables
  std::optional<StageTable> resolved_stage;  // [stage], as in a resolved config
  std::optional<std::vector<StageTable>> stages;
};

// Throws ConfigError on a syntax error: `file:line:column: what is wrong`. `order`: see Origin.
Document parse(std::string_view text, const std::string& file, int order);

// One argument of --set, or of --change (`kind`). Bare words are strings. Throws ConfigError.
struct Assignment {
  std::string key;
  Table table;  // one value under `key`, or the values of an inline table
};
Assignment parse_set(const std::string& argument, Origin::Kind kind = Origin::Kind::kSet);

// Parses the TOML source of one value, as in pl_option.default_value; nullopt if it is not a value.
std::optional<Literal> parse_value(std::string_view text);

// Whether TOML allows the key without quotes.
bool is_bare_key(std::string_view key);
// Whether `key` is bare keys separated by dots.
bool is_dotted_key(std::string_view key);

// Throws ConfigError for text that must not reach the parser: not UTF-8, a NUL byte, non-ASCII characters
// outside of strings and comments (toml++ 3.3 has undefined behaviour there), or keys nested so deeply that
// it would exhaust the stack.
void refuse_unreadable(std::string_view text, const std::string& file);

// Says in plain words what toml++ found wrong at line and column (1-based).
ConfigError syntax_error(std::string_view text, const std::string& file, size_t line, size_t column,
                         std::string_view description);

}  // namespace pipeline::config
