#pragma once

#include <string>
#include <string_view>

namespace pipeline::tokenizer {

// Unicode's normal form C, in which a letter and its accent are one character where there is one. Text that
// is no UTF-8 stays as it is. `kept`: memory for the result, which may be `text` itself.
std::string_view composed(std::string_view text, std::string& kept);

// The text in lower case, each character by itself; bytes that are no UTF-8 stay as they are.
std::string lowered(std::string_view text);

}  // namespace pipeline::tokenizer
