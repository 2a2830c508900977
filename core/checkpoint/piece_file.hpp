#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/checkpoint/contents.hpp"
#include "core/checkpoint/file_system.hpp"
#include "core/checkpoint/manifest.hpp"

namespace pipeline::checkpoint {

// One rank's pieces as one safetensors file. Tensors are named `kind/parameter`, with `@offset` where a piece
// is not the whole tensor, so that the checkpoint of a single process is a plain file of full tensors.
class PieceFile {
 public:
  // Looks at all pieces and lays the file out. Throws pipeline::Error for a piece that contradicts itself.
  PieceFile(const std::string& name, const PieceSource& pieces);

  bool empty() const { return share_.tensors.empty(); }
  uint64_t bytes() const { return header_.size() + data_bytes_; }

  // Writes `folder/name` and syncs it. Returns the file and its tensors, as a manifest without contents.
  Manifest write(FileSystem& file_system, const std::string& folder);

 private:
  PieceSource pieces_;
  Manifest share_;
  std::string header_;
  uint64_t data_bytes_ = 0;
  std::set<int, std::greater<>>
      widths_;  // bits per element; the data is laid out by falling width, so that it is aligned
};

}  // namespace pipeline::checkpoint
