#pragma once

#include <string>

namespace pipeline::summarization {

// An entry of a cache folder counts as used when it is written and when this is called for it.
void mark_used(const std::string& path);

// Removes what nothing has used for 30 days: token caches, tokenizers that were trained, and what processes
// that were killed left of these. Other files and locks stay. A line for the log that names what was removed
// and its size; empty if there was nothing.
std::string remove_unused(const std::string& folder);

}  // namespace pipeline::summarization
