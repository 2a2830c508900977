#pragma once

#include <span>
#include <string>
#include <string_view>

#include "pipeline.h"

namespace pipeline::config {

// Options for a terminal, at most `width` columns: below a line [table] for each table, a line or more for
// each key with type, default, and help with unit and range or choices; * marks keys that may change when a
// run is continued. `prefix` is put before each key
// ("task.").
std::string explain(std::span<const pl_option> options, std::string_view prefix = "", size_t width = 100);

// The same as a Markdown table.
std::string explain_markdown(std::span<const pl_option> options, std::string_view prefix = "");

}  // namespace pipeline::config
