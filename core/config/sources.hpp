#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"
#include "core/config/error.hpp"
#include "core/config/option.hpp"

namespace pipeline::config {

struct ConfigEntry {
  Literal value;
  Origin origin;
};

// A tree of TOML tables, flattened: values by dotted key, and the tables themselves, so that an unknown
// empty table is noticed. Keys that need quotes in TOML stay quoted, so they match no option.
struct Table {
  std::map<std::string, ConfigEntry, std::less<>> entries;
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
  std::optional<ConfigEntry> extends;
  std::optional<ConfigEntry> started_in;     // of a configuration that a run keeps
  std::optional<ConfigEntry> stage_value;    // `stage` if it is neither a table nor an array of tables
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

// One stage: its own values, with `stage.name` and the like under their full keys.
struct StageLayer {
  std::string name;
  Origin origin;
  Table table;
};

// All that was read, before defaults.
struct Sources {
  std::string file;
  std::string paths_from;                                // see Config::paths_from()
  std::string selected_stage;                            // LoadArgs.stage
  Table base;                                            // the file, merged over the files it extends
  bool has_stages = false;                               // otherwise `stages` holds the implied one
  bool is_resolved_stage = false;                        // the file is what a stage of several keeps
  std::vector<StageLayer> stages;                        // in order
  Table sets;                                            // --set KEY=VALUE
  std::map<std::string, Table, std::less<>> stage_sets;  // --set stage.NAME.KEY=VALUE, by NAME
  std::shared_ptr<const Sources> unchanged;              // without --change; nullptr: there is none

  const StageLayer* find_stage(std::string_view name) const;
  std::vector<std::string> stage_names() const;
  // Everything in force for a stage; "": for no stage in particular.
  Table merged(std::string_view stage) const;
};

// Reads the files and arguments. Adds what is wrong with stages to `problems`; throws if something cannot
// be read at all.
Sources read_sources(const LoadArgs& args, Problems& problems);

// The configuration that the run in a folder keeps; another path as it is. Throws ConfigError for a folder
// that has none.
std::string file_of_run(const std::string& path);

// A path that is relative to one folder, for a configuration whose paths are relative to another: as Origin
// has them.
std::string path_for(const std::string& path, const std::string& base, const std::string& other_base);

// Where `file`, which was read, is in the folder of a run: its paths are relative to where that run was
// started, and run.dir is where it is now. Returns the former, "" where that is where this program was
// started.
std::string place_in_run(Document& document, const std::string& file, bool named_as_folder);

// Returns the text of a configuration file. Throws ConfigError if it is missing (naming similar files), a
// folder, unreadable or too large. `problem_prefix` precedes the message ("configs/x.toml:1: extends =
// \"base.toml\": " or "").
std::string read_file(const std::string& file, const std::string& problem_prefix);

}  // namespace pipeline::config
