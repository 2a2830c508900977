#pragma once

#include <map>
#include <optional>
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
  std::string selected_stage;                            // LoadArgs.stage
  Table base;                                            // the file over the files it extends
  bool has_stages = false;                               // otherwise `stages` holds the implied one
  std::vector<StageLayer> stages;                        // in order
  Table sets;                                            // --set KEY=VALUE
  std::map<std::string, Table, std::less<>> stage_sets;  // --set stage.NAME.KEY=VALUE, by NAME

  const StageLayer* find_stage(std::string_view name) const;
  std::vector<std::string> stage_names() const;
  // Everything in force for a stage, "" for none in particular.
  Table merged(std::string_view stage) const;
};

// Reads the files and arguments. What is wrong with stages is added to `problems`; what cannot be read at all
// is thrown.
Sources read_sources(const LoadArgs& args, Problems& problems);

// Text of a configuration file. Throws ConfigError: missing (with files of a similar name), a folder,
// unreadable, too large. `problem_prefix` comes before the message ("configs/x.toml:1: extends =
// \"base.toml\": " or "").
std::string read_file(const std::string& file, const std::string& problem_prefix);

}  // namespace pipeline::config
