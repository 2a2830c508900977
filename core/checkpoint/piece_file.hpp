#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/checkpoint/file_system.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/safetensors/header.hpp"

namespace pipeline::checkpoint {

// One rank's pieces as one safetensors file. Tensors are named `kind/parameter`, with `@offset` if a piece
// is not the whole tensor, so that the checkpoint of a single process is a plain file of full tensors.
class PieceFile {
 public:
  // Visits all pieces and lays out the file. Throws pipeline::Error for a piece that contradicts itself.
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
  std::set<int, std::greater<>> widths_;  // bits per element: by falling width all data is aligned
};

inline std::vector<int64_t> shape_of(const pl_piece& piece) {
  return piece.ndim == 0 ? std::vector<int64_t>()
                         : std::vector<int64_t>(piece.shape, piece.shape + piece.ndim);
}

// Throws pipeline::Error, naming `label`, for a dtype that safetensors does not have.
safetensors::Dtype dtype_of(const pl_piece& piece, std::string_view label);

}  // namespace pipeline::checkpoint
