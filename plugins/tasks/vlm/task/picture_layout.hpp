// What a picture takes of the sequence.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plugins/data/images/tiles.hpp"

namespace pipeline::vlm {

// A picture of some size.
struct PictureShape {
  int64_t squares = 1;          // of it, which the encoder sees
  std::vector<int64_t> tokens;  // what it takes, kPatch for a row of features
  std::vector<int64_t>
      arranged;  // those rows: each one of the squares' rows, or kNewline; empty: all, in order
};

class PictureLayout {
 public:
  // `patches`: along a square's side.
  PictureLayout(images::TileOptions tiles, int64_t patches) : tiles_(std::move(tiles)), patches_(patches) {}

  PictureShape of(int64_t width, int64_t height) const;
  // The most rows of features that a picture may have.
  int64_t most_rows() const;

 private:
  images::TileOptions tiles_;
  int64_t patches_;
};

}  // namespace pipeline::vlm
