#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "core/config/document.hpp"
#include "core/config/error.hpp"

namespace pipeline::config {

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
