#pragma once

#include <span>
#include <string>
#include <string_view>

#include "pipeline.h"

namespace pipeline::config {

// A table of options for a terminal, at most `width` columns: key, type, default, range or choices, unit, help. `prefix` is put
// before each key ("task.").
std::string explain(std::span<const pl_option> options, std::string_view prefix = "", size_t width = 100);

// The same as a Markdown table.
std::string explain_markdown(std::span<const pl_option> options, std::string_view prefix = "");

}  // namespace pipeline::config
