#include "plugins/data/messages/content_groups.hpp"

#include <algorithm>
#include <utility>

namespace pipeline::messages {

files::Hash128 ContentGroups::root(files::Hash128 content) const {
  for (auto found = above_.find(content); found != above_.end(); found = above_.find(content))
    content = found->second;
  return content;
}

void ContentGroups::join(const std::vector<std::string>& contents) {
  if (contents.empty()) return;
  const files::Hash128 first = files::hash128(contents.front());
  const auto order = [](const files::Hash128& hash) { return std::pair(hash.high, hash.low); };
  for (size_t i = 1; i < contents.size(); ++i) {
    const files::Hash128 own = files::hash128(contents[i]);
    files::Hash128 smaller = root(first), larger = root(own);
    if (order(larger) < order(smaller)) std::swap(smaller, larger);
    if (smaller != larger) above_[larger] = smaller;
    for (const files::Hash128& content : {first, own, larger})  // so that ways stay short
      if (content != smaller) above_[content] = smaller;
  }
}

files::Hash128 ContentGroups::of(const std::string& content) const { return root(files::hash128(content)); }

}  // namespace pipeline::messages
