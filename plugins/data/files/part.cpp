#include "plugins/data/files/part.hpp"

#include <sstream>
#include <utility>

#include "plugins/data/files/error.hpp"

namespace pipeline::files {

bool SplitPart::takes(const Hash128& content) const {
  if (held_out == 0) return true;
  const double place = static_cast<double>(content.low >> 11) * 0x1p-53;  // in [0, 1)
  return (place < held_out) == is_validation;
}

std::string SplitPart::key() const {
  return held_out == 0 ? "" : std::string(bytes_of(held_out)) + (is_validation ? "validation" : "training");
}

Hash128 ContentGroups::root(Hash128 content) const {
  for (auto found = above_.find(content); found != above_.end(); found = above_.find(content))
    content = found->second;
  return content;
}

void ContentGroups::join(const std::vector<std::string>& contents) {
  if (contents.empty()) return;
  const Hash128 first = hash128(contents.front());
  const auto order = [](const Hash128& hash) { return std::pair(hash.high, hash.low); };
  for (size_t i = 1; i < contents.size(); ++i) {
    const Hash128 own = hash128(contents[i]);
    Hash128 smaller = root(first), larger = root(own);
    if (order(larger) < order(smaller)) std::swap(smaller, larger);
    if (smaller != larger) above_[larger] = smaller;
    for (const Hash128& content : {first, own, larger})  // so that ways stay short
      if (content != smaller) above_[content] = smaller;
  }
}

Hash128 ContentGroups::of(const std::string& content) const { return root(hash128(content)); }

std::string held_out_text(const std::string& path, double share, uint64_t training, uint64_t validation,
                          const std::string& noun) {
  const uint64_t all = training + validation;
  std::ostringstream text;
  if (training == 0 || validation == 0) {
    text << path << ": " << (validation == 0 ? "none" : "each") << " of its " << all << " " << noun
         << " is held out by task.data.validation_share = " << share
         << ": give another share, or a file as task.data.val";
    throw DataError(text.str());
  }
  text << "held out   " << validation << " of the " << all << " " << noun << " of " << path
       << " for validation (task.data.validation_share = " << share << ")";
  return text.str();
}

}  // namespace pipeline::files
