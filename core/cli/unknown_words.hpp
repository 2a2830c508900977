// Answers to words of a command line that are none of ours, but another tool's or misspelled.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace pipeline::cli {

// Throws Error (PL_ERROR_CONFIG) where the first argument is neither a verb of the app nor an option.
void refuse_unknown_verb(const CLI::App& app, std::span<const std::string> arguments);

// After a failed parse: throws Error (PL_ERROR_CONFIG) that says what to write in place of the first option
// that the verb does not have, if there is one.
void refuse_unknown_option(const CLI::App& app, std::span<const std::string> arguments);

}  // namespace pipeline::cli
