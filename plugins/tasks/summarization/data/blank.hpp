#pragma once

#include <string_view>

namespace pipeline::summarization {

// Nothing but white space, zero-width characters included. The text is UTF-8.
bool is_blank(std::string_view text);

}  // namespace pipeline::summarization
