#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pipeline::hugging_face {

// What is wrong with the weights in a folder, for one error that says all of it.
class Problems {
 public:
  // kind: "missing", "unexpected", ...
  void add(const std::string& kind, const std::string& what) { lists_[kind].push_back(what); }
  void add_shape(const std::string& tensor, const std::vector<int64_t>& is, const std::vector<int64_t>& must_be);

  // Throws std::runtime_error where there are any; `folder` comes first.
  void raise(const std::string& folder) const;

 private:
  std::map<std::string, std::vector<std::string>> lists_;
};

}  // namespace pipeline::hugging_face
