// Pictures as several squares: the whole, and parts of it in which more can be seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/images/image.hpp"
#include "plugins/data/images/resize.hpp"

namespace pipeline::images {

struct Grid {
  int64_t rows = 0, columns = 0;

  int64_t tiles() const { return rows * columns; }
  bool operator==(const Grid&) const = default;
};

// Of "2x3", rows and columns; nothing for other texts.
std::optional<Grid> grid_named(std::string_view name);
std::string name_of(const Grid& grid);

// How a picture becomes squares of `square.size` pixels a side.
struct TileOptions {
  ResizeOptions square;     // how it becomes one
  std::vector<Grid> grids;  // LLaVA-NeXT's "anyres": a grid of these beside the whole, which is squashed then
};

// The grid of a picture of this size: of those in which most of its pixels are seen, the smallest one; 0x0:
// there is only the whole. Source: select_best_resolution() of transformers' image_processing_utils.py.
Grid grid_of(const TileOptions& options, int64_t width, int64_t height);

// The squares of a picture. With grids: the whole, then the tiles, row by row, of the picture scaled into the
// grid, in the middle of black.
std::vector<Image> squares_of(const Image& image, const TileOptions& options);

// What can be seen in them, as one picture.
Image seen_of(const Image& image, const TileOptions& options);

// The squares as (squares, 3, S, S) numbers; see resize_image().
std::vector<float> numbers_of(const Image& image, const TileOptions& options);

}  // namespace pipeline::images
