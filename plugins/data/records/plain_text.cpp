#include "plugins/data/records/plain_text.hpp"

#include "plugins/data/records/pairs.hpp"

namespace pipeline::records {

bool PlainText::read_line() {
  next_.clear();
  for (bool is_ended = false; !is_ended;) {
    const std::string_view ahead = input_.ahead();
    if (ahead.empty()) break;
    const size_t end = ahead.find('\n');
    is_ended = end != ahead.npos;
    const size_t size = is_ended ? end + 1 : ahead.size();
    if (next_.size() <= max_bytes_) next_ += ahead.substr(0, size);
    input_.advance(size);
  }
  ++lines_;
  return !next_.empty();
}

bool PlainText::next() {
  text_.clear();
  if (unit_ == TextUnit::kFile) {
    line_ = 1;
    for (std::string_view ahead = input_.ahead(); !ahead.empty(); ahead = input_.ahead()) {
      text_ += ahead;
      input_.advance(ahead.size());
    }
    return !text_.empty();
  }
  while (read_line()) {
    const bool blank = is_blank(next_);
    if (blank && text_.empty()) continue;
    if (blank) break;
    if (text_.empty()) line_ = lines_;
    if (!too_long()) text_ += next_;  // of one that is, the start is enough
    if (unit_ == TextUnit::kLine) break;
  }
  while (!too_long() && (text_.ends_with('\n') || text_.ends_with('\r'))) text_.pop_back();
  return !text_.empty();
}

}  // namespace pipeline::records
