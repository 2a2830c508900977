#include "plugins/tasks/vlm/task/picture_layout.hpp"

#include <algorithm>
#include <cmath>

#include "plugins/models/chat/chat_format.hpp"
#include "plugins/tasks/vlm/model/vlm.hpp"

namespace pipeline::vlm {
namespace {

using images::Grid;

// The part of a side of `patches` that a picture has in it where the other one is full; what is left on both
// ends is equal. Source: unpad_image() of transformers' modeling_llava_next.py, with its rounding.
struct Filled {
  int64_t from = 0, to;
  Filled(int64_t patches, int64_t side, double scale) : to(patches) {
    const auto filled = static_cast<int64_t>(std::nearbyint(static_cast<double>(side) * scale * 1e7) / 1e7);
    from = (patches - filled) / 2;
    to = patches - from;
  }
  explicit Filled(int64_t patches) : to(patches) {}
};

// The whole, then the grid's patches line by line across its tiles, without those that the picture does not
// reach, and after each line the newline.
std::vector<int64_t> arranged(const Grid& grid, int64_t patches, int64_t width, int64_t height) {
  const int64_t in_square = patches * patches, rows = grid.rows * patches, columns = grid.columns * patches;
  const double picture = static_cast<double>(width) / static_cast<double>(height),
               whole = static_cast<double>(columns) / static_cast<double>(rows);
  const bool is_wide = picture > whole;
  const Filled y = is_wide ? Filled(rows, height, static_cast<double>(columns) / static_cast<double>(width))
                           : Filled(rows);
  const Filled x = is_wide ? Filled(columns)
                           : Filled(columns, width, static_cast<double>(rows) / static_cast<double>(height));
  std::vector<int64_t> result;
  for (int64_t patch = 0; patch < in_square; ++patch) result.push_back(patch);
  for (int64_t row = y.from; row < y.to; ++row) {
    for (int64_t column = x.from; column < x.to; ++column) {
      const int64_t tile = 1 + row / patches * grid.columns + column / patches;
      result.push_back(tile * in_square + row % patches * patches + column % patches);
    }
    result.push_back(kNewline);
  }
  return result;
}

}  // namespace

PictureShape PictureLayout::of(int64_t width, int64_t height) const {
  PictureShape shape;
  const Grid grid = images::grid_of(tiles_, width, height);
  shape.squares = 1 + grid.tiles();
  if (grid.tiles() > 0) shape.arranged = arranged(grid, patches_, width, height);
  const auto rows = grid.tiles() > 0 ? shape.arranged.size() : static_cast<size_t>(patches_ * patches_);
  shape.tokens.assign(rows, chat::ChatTokens::kPatch);
  return shape;
}

int64_t PictureLayout::most_rows() const {
  int64_t most = patches_ * patches_;
  for (const Grid& grid : tiles_.grids)
    most = std::max(most, patches_ * patches_ + grid.rows * patches_ * (grid.columns * patches_ + 1));
  return most;
}

}  // namespace pipeline::vlm
