#pragma once

#include <string_view>

namespace pipeline::summarization {

// Nothing but white space (Unicode's White_Space), U+200B (zero width space) and U+FEFF (byte-order mark).
// The text is UTF-8.
bool is_blank(std::string_view text);

}  // namespace pipeline::summarization
