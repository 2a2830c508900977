#pragma once

#include <string>
#include <string_view>

namespace pipeline::files {

// Why a file that begins so cannot be read as UTF-8 text, and what to do: it is compressed, a table in
// another format, text in another encoding, or what stands in place of a file (core/base/foreign.hpp). Empty:
// nothing is known against it. The first kStartOfText bytes are enough.
inline constexpr size_t kStartOfText = 512;
std::string why_no_text(std::string_view start);

}  // namespace pipeline::files
