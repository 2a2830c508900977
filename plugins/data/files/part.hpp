#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "files/hash128.hpp"

namespace pipeline::files {

// One of the two parts that a file's records are dealt out to: a share that is held out for validation, and
// the rest. A record's content alone says where it belongs, so that equal ones are in one part, in any order
// of the file and on any machine.
struct SplitPart {
  double held_out = 0;         // the share; 0: the file is one part
  bool is_validation = false;  // this part is what is held out

  bool takes(std::string_view content) const { return takes(hash128(content)); }
  bool takes(const Hash128& content) const;
  std::string key() const;  // the same for equal parts: for keys of caches
};

// Which contents of a file's records belong together: those of one record are in one group, as are those that
// share one with them. Memory is that of a hash for each content that is not alone.
class ContentGroups {
 public:
  void join(const std::vector<std::string>& contents);
  // One hash for all contents of a group, in any order of the file; for a content that is alone, its own.
  Hash128 of(const std::string& content) const;

 private:
  Hash128 root(Hash128 content) const;

  std::unordered_map<Hash128, Hash128> above_;  // nearer to the smallest of its group
};

// A line for the log about the records of both parts, or what they are. Throws DataError where one has none.
std::string held_out_text(const std::string& path, double share, uint64_t training, uint64_t validation,
                          const std::string& noun = "usable records");

}  // namespace pipeline::files
