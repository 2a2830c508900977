// Completion of command lines, the manual page, what a command needs, and answers to words of a command line
// that are another tool's or misspelled. All take verbs, options and help
// from the CLI11 app, so that they have what --help has.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/cli/verb.hpp"

namespace pipeline::cli {

// The verb of this name; null: there is none.
const CLI::App* verb_called(const CLI::App& app, std::string_view name);

// The words after a verb, sorted out as its parser would, but without an error where some are missing or
// wrong.
struct CommandLine {
  ConfigArgs args;                 // those that the verb has, without the launch flags
  std::vector<std::string> files;  // all configurations; the last one is that of `args`
  size_t positionals = 0;
  const CLI::Option* open = nullptr;  // the option whose value would come next
};
CommandLine read_words(const CLI::App& verb, std::span<const std::string> words);

// Something that may stand where the cursor is. Ends with '/', '.' or '=' where more is to follow at once.
struct Candidate {
  std::string text;
  std::string help;  // one line; may be empty
};

// The verb's positional arguments in the order in which they are given.
std::vector<const CLI::Option*> positionals_of(const CLI::App& verb);

// What the help calls an option's value or a positional argument: "FILE", "val|test". Without the limits that
// CLI11 adds.
std::string placeholder(const CLI::Option& option);

// `words`: the arguments up to the cursor; the last one, perhaps empty, is what is being typed. Loads plugins
// only for the keys and values of their own options. Never throws: what cannot be known has no candidates.
std::vector<Candidate> complete(const CLI::App& app, const std::vector<std::string>& words);

// The targets of the build that a command (`words`: verb and arguments) needs besides the program: plugins by
// name, "tasks", "strategies", "backends", or "product" for all. scripts/pipeline builds them before it runs
// the command. Never throws: a command that is wrong needs nothing and says so itself.
std::vector<std::string> needed_targets(const CLI::App& app, const std::vector<std::string>& words);

// The script that makes a shell (bash, zsh, fish) ask `pipeline complete` for candidates.
std::string completion_script(const std::string& shell);

// The manual page, as roff.
std::string manual(const CLI::App& app);

// Throws Error (PL_ERROR_CONFIG) where the first argument is neither a verb of the app nor an option.
void refuse_unknown_verb(const CLI::App& app, std::span<const std::string> arguments);

// After a failed parse: throws Error (PL_ERROR_CONFIG) that says what to write in place of the first option
// that the verb does not have, if there is one.
void refuse_unknown_option(const CLI::App& app, std::span<const std::string> arguments);

}  // namespace pipeline::cli
