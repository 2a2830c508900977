#include "plugins/tasks/vlm/picture_layout.hpp"

#include <algorithm>
#include <cmath>

#include <pipeline/error.hpp>

#include "plugins/models/chat/chat_format.hpp"
#include "plugins/models/llava/vlm.hpp"

namespace pipeline::tasks::vlm {
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
    result.push_back(llava::kNewline);
  }
  return result;
}

// What Idefics3Processor of transformers writes, with one <image> for each square.
std::string words_of(const Grid& grid) {
  const std::string around = "<fake_token_around_image>", whole = around + "<global-img><image>" + around;
  if (grid.tiles() == 0) return whole;
  std::string text;
  for (int64_t row = 1; row <= grid.rows; ++row) {
    for (int64_t column = 1; column <= grid.columns; ++column)
      text += concat(around, "<row_", row, "_col_", column, "><image>");
    text += "\n";
  }
  return text + "\n" + whole;
}

}  // namespace

PictureShape PictureLayout::of(int64_t width, int64_t height) const {
  PictureShape shape;
  const Grid grid = images::grid_of(tiles_, width, height);
  const auto in_square = static_cast<size_t>(this->in_square());
  shape.squares = 1 + grid.tiles();
  if (tiles_.max_patches > 0) {
    shape.squares = grid.tiles();
    shape.patches = {.rows = grid.rows, .columns = grid.columns};
  }
  if (words_) {
    for (const int64_t token : words_(words_of(grid)))
      shape.tokens.insert(shape.tokens.end(), token == chat::ChatTokens::kPatch ? in_square : 1, token);
    return shape;
  }
  if (!tiles_.grids.empty()) shape.arranged = arranged(grid, side_, width, height);
  const size_t rows =
      shape.arranged.empty() ? static_cast<size_t>(shape.squares) * in_square : shape.arranged.size();
  shape.tokens.assign(rows, chat::ChatTokens::kPatch);
  return shape;
}

int64_t PictureLayout::most_rows() const {
  if (tiles_.max_patches > 0) return tiles_.max_patches;
  int64_t most = in_square();
  if (tiles_.longest_edge > 0)  // a picture as high as wide has most
    most *= 1 + images::grid_of(tiles_, tiles_.longest_edge, tiles_.longest_edge).tiles();
  for (const Grid& grid : tiles_.grids)
    most = std::max(most, side_ * side_ + grid.rows * side_ * (grid.columns * side_ + 1));
  return most;
}

}  // namespace pipeline::tasks::vlm
