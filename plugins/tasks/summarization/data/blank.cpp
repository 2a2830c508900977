#include "plugins/tasks/summarization/data/blank.hpp"

namespace pipeline::summarization {
namespace {

// Unicode's White_Space, and behind it the two characters without width that are not.
constexpr std::string_view kBlanks[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085",
                                        "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                        "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                        "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff"};

}  // namespace

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    size_t length = 0;
    for (const auto blank : kBlanks) {
      if (text.starts_with(blank)) length = blank.size();
    }
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace pipeline::summarization
