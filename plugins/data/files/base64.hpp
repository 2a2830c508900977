#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pipeline::files {

// The bytes that a text of base64 stands for (RFC 4648, padding optional); nullopt: it is none.
std::optional<std::string> base64_decode(std::string_view text);

// Whether a text is a picture's file in base64, by its beginning: no path is like that for so long.
bool is_picture_in_base64(std::string_view text);

}  // namespace pipeline::files
