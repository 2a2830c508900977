#pragma once

#include <string>
#include <string_view>

namespace pipeline::config {

// What other tools call things: Accelerate, DeepSpeed, Lightning, transformers, torchtitan, nanoGPT. For a
// dotted key the longest known end of it counts, so that a name is found in any table. Returns what to write
// instead, beginning with our key
// ("train.max_epochs"), or "".
std::string_view our_name_for_key(std::string_view foreign_key);

// The same for tables: "training" -> "[train]".
std::string_view our_name_for_table(std::string_view foreign_table);

}  // namespace pipeline::config
