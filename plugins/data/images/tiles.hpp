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

// The grid that "2x3" names, rows and columns; nothing for other texts.
std::optional<Grid> grid_named(std::string_view name);
std::string name_of(const Grid& grid);

// How a picture becomes squares of `square.size` pixels a side.
struct TileOptions {
  ResizeOptions square;     // how a picture becomes one square
  std::vector<Grid> grids;  // LLaVA-NeXT's "anyres": a grid of these, and the whole, which is squashed then
  // Idefics3's, if not 0: scaled until the longest edge is this, squashed to whole squares, and cut into
  // these; the whole comes last. Without `splits` the whole alone.
  int64_t longest_edge = 0;
  bool splits = true;
  // SigLIP 2's NaFlex, if not 0: a square is a patch, and the picture a grid of at most so many; its shape
  // changes by rounding to whole patches alone.
  int64_t max_patches = 0;
};

// The grid of a picture of this size; 0x0: there is only the whole. Of several it is the smallest one of
// those in which most of its pixels are seen. Source: select_best_resolution() of transformers'
// image_processing_utils.py, image_processing_pil_idefics3.py and image_processing_siglip2.py.
Grid grid_of(const TileOptions& options, int64_t width, int64_t height);

// The squares of a picture. With grids: the whole, then the tiles, row by row, of the picture scaled into the
// grid, in the middle of black. With a longest edge: the tiles, row by row, then the whole. With NaFlex: the
// patches, row by row.
std::vector<Image> squares_of(const Image& image, const TileOptions& options);

// What the squares show, as one picture.
Image seen_of(const Image& image, const TileOptions& options);

// The squares as (squares, 3, S, S) numbers; see resize_image().
std::vector<float> numbers_of(const Image& image, const TileOptions& options);

}  // namespace pipeline::images
