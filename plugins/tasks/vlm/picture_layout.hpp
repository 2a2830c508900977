// What a picture takes of the sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/data/images/tiles.hpp"
#include "plugins/models/vision/vision_tower.hpp"

namespace pipeline::tasks::vlm {

// A picture of some size.
struct PictureShape {
  int64_t squares = 1;          // of the picture, which the encoder sees
  vision::PatchGrid patches;    // NaFlex's: those squares
  std::vector<int64_t> tokens;  // what the picture takes, kPatch for a row of features
  std::vector<int64_t>
      arranged;  // those rows: each one of the squares' rows, or kNewline; empty: all, in order
};

// The tokens of words around pictures, of which each <image> is kPatch.
using PictureWords = std::function<std::vector<int64_t>(const std::string& text)>;

class PictureLayout {
 public:
  // `side`: rows of features along a square's side; `registers`: before these. `words`: of Idefics3, which
  // says of each square where it is; null: nothing stands around pictures.
  PictureLayout(images::TileOptions tiles, int64_t side, PictureWords words = nullptr, int64_t registers = 0)
      : tiles_(std::move(tiles)), side_(side), registers_(registers), words_(std::move(words)) {}

  PictureShape of(int64_t width, int64_t height) const;
  // The most rows of features that a picture may have.
  int64_t most_rows() const;

 private:
  images::TileOptions tiles_;
  int64_t in_square() const { return registers_ + side_ * side_; }

  int64_t side_, registers_;
  PictureWords words_;
};

}  // namespace pipeline::tasks::vlm
