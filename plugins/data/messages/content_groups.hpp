// Which contents of a file's conversations belong together, because conversations have them in common.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::messages {

// Groups of contents: those of one conversation are in one group, as are those that share one with them.
// Memory is that of a hash for each content that is not alone.
class ContentGroups {
 public:
  void join(const std::vector<std::string>& contents);
  // One hash for all contents of a group, in any order of the file; for a content that is alone, its own.
  files::Hash128 of(const std::string& content) const;

 private:
  struct Hash {
    size_t operator()(const files::Hash128& content) const { return content.low; }
  };
  files::Hash128 root(files::Hash128 content) const;

  std::unordered_map<files::Hash128, files::Hash128, Hash> above_;  // nearer to the smallest of its group
};

}  // namespace pipeline::messages
