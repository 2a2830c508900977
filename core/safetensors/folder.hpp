#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/safetensors/file.hpp"

namespace pipeline::safetensors {

// The weights in a Hugging Face model folder: `model.safetensors` or, if there is none, the shards named in
// `model.safetensors.index.json`. Immutable and safe for any thread.
class Folder {
 public:
  // Throws Error unless the files are valid and agree with the index: every tensor that it lists is in the
  // file named for it, and every tensor in those files is listed with that file.
  static Folder open(const std::string& folder);

  const std::string& path() const { return path_; }
  const std::vector<File>& files() const { return files_; }

  std::vector<std::string> names() const;               // sorted
  size_t size() const { return index_.size(); }         // tensors
  const TensorView* find(std::string_view name) const;  // nullptr if there is none
  const TensorView& at(std::string_view name) const;    // throws Error if there is none

 private:
  void open_shards(const std::string& index_path);

  std::string path_;
  std::vector<File> files_;
  std::map<std::string, const TensorView*, std::less<>> index_;  // into files_
};

}  // namespace pipeline::safetensors
