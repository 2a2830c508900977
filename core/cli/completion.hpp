// Completion of command lines and the manual page. Both take verbs, options and help from the CLI11 app, so
// that they have what --help has.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace pipeline::cli {

// Something that may stand where the cursor is. Ends with '/', '.' or '=' where more is to follow at once.
struct Candidate {
  std::string text;
  std::string help;  // one line; may be empty
};

// In the order in which they are given.
std::vector<const CLI::Option*> positionals_of(const CLI::App& verb);

// What the help calls an option's value or a positional argument: "FILE", "val|test". Without the limits that
// CLI11 adds.
std::string placeholder(const CLI::Option& option);

// `words`: the arguments up to the cursor; the last one, perhaps empty, is what is being typed. Loads plugins
// only for the keys and values of their own options. Never throws: what cannot be known has no candidates.
std::vector<Candidate> complete(const CLI::App& app, const std::vector<std::string>& words);

// The script that makes a shell (bash, zsh, fish) ask `pipeline complete` for candidates.
std::string completion_script(const std::string& shell);

// The manual page, as roff.
std::string manual(const CLI::App& app);

}  // namespace pipeline::cli
