#include "plugins/data/images/tiles.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace pipeline::images {
namespace {

// The picture, scaled as large as these sides allow; get_patch_output_size() of transformers.
Image scaled_into(const Image& image, int64_t width, int64_t height, Filter filter) {
  const double across = static_cast<double>(width) / static_cast<double>(image.width),
               down = static_cast<double>(height) / static_cast<double>(image.height);
  const auto scaled = [](int64_t side, double scale, int64_t most) {
    return std::min(static_cast<int64_t>(std::ceil(static_cast<double>(side) * scale)), most);
  };
  const int64_t w = across < down ? width : scaled(image.width, down, width),
                h = across < down ? scaled(image.height, across, height) : height;
  return resample(image, w, h, {0, 0, w, h}, filter);
}

Image tile_of(const Image& image, int64_t left, int64_t top, int64_t side) {
  Image tile = black(side, side);
  for (int64_t y = 0; y < side; ++y)
    std::copy_n(image.pixels.data() + ((top + y) * image.width + left) * 3, side * 3,
                tile.pixels.data() + y * side * 3);
  return tile;
}

struct Size {
  int64_t width = 0, height = 0;
};

// Python's int() of a floating-point number, for products and quotients.
int64_t whole_part(double value) { return static_cast<int64_t>(value); }

// Longest edge `edge`, the other one even; transformers' get_resize_output_image_size().
Size with_longest_edge(Size size, int64_t edge) {
  constexpr int64_t kMost = 4096;
  const auto even = [](int64_t side) { return std::max<int64_t>(side + side % 2, 1); };
  const auto aspect = [&] { return static_cast<double>(size.width) / static_cast<double>(size.height); };
  if (size.width >= size.height)
    size = {edge, even(whole_part(static_cast<double>(edge) / aspect()))};
  else
    size = {even(whole_part(static_cast<double>(edge) * aspect())), edge};
  if (size.width >= size.height && size.width > kMost)
    size = {kMost, std::max<int64_t>(whole_part(static_cast<double>(kMost) / aspect()), 1)};
  else if (size.height > size.width && size.height > kMost)
    size = {std::max<int64_t>(whole_part(static_cast<double>(kMost) * aspect()), 1), kMost};
  return size;
}

// resize_for_vision_encoder().
Size in_whole_squares(Size size, int64_t side) {
  const double aspect = static_cast<double>(size.width) / static_cast<double>(size.height);
  const auto up = [&](int64_t length) { return (length + side - 1) / side * side; };
  if (size.width >= size.height) {
    const int64_t width = up(size.width);
    return {width, up(whole_part(static_cast<double>(width) / aspect))};
  }
  const int64_t height = up(size.height);
  return {up(whole_part(static_cast<double>(height) * aspect)), height};
}

Image resized(const Image& image, Size size, Filter filter) {
  return resample(image, size.width, size.height, {0, 0, size.width, size.height}, filter);
}

void add_tiles(const Image& image, const Grid& grid, int64_t side, std::vector<Image>& squares) {
  for (int64_t row = 0; row < grid.rows; ++row)
    for (int64_t column = 0; column < grid.columns; ++column)
      squares.push_back(tile_of(image, column * side, row * side, side));
}

std::vector<Image> split(const Image& image, const TileOptions& options) {
  const int64_t side = options.square.size;
  const Filter filter = options.square.filter;
  const Image first =
      resized(image, with_longest_edge({image.width, image.height}, options.longest_edge), filter);
  if (!options.splits) return {resized(first, {side, side}, filter)};
  const Image large = resized(first, in_whole_squares({first.width, first.height}, side), filter);
  std::vector<Image> squares;
  add_tiles(large, grid_of(options, image.width, image.height), side, squares);
  squares.push_back(resized(large, {side, side}, filter));
  return squares;
}

// The largest scale at which whole patches are not too many, found as get_image_size_for_max_num_patches()
// does it.
Grid patches_of(const TileOptions& options, int64_t width, int64_t height) {
  const auto patch = static_cast<double>(options.square.size);
  const auto patches = [&](int64_t side, double scale) {
    return std::max(1.0, std::ceil(static_cast<double>(side) * scale / patch));
  };
  constexpr double kClose = 1e-5;
  double low = kClose / 10, high = 100;
  while (high - low >= kClose) {
    const double scale = (low + high) / 2;
    const bool fits =
        patches(height, scale) * patches(width, scale) <= static_cast<double>(options.max_patches);
    (fits ? low : high) = scale;
  }
  return {.rows = whole_part(patches(height, low)), .columns = whole_part(patches(width, low))};
}

Image in_whole_patches(const Image& image, const TileOptions& options) {
  const Grid grid = grid_of(options, image.width, image.height);
  const int64_t side = options.square.size;
  return resized(image, {grid.columns * side, grid.rows * side}, options.square.filter);
}

}  // namespace

std::optional<Grid> grid_named(std::string_view name) {
  constexpr int64_t kMost = 64;
  Grid grid;
  const char* const end = name.data() + name.size();
  const auto rows = std::from_chars(name.data(), end, grid.rows);
  if (rows.ec != std::errc() || rows.ptr == end || *rows.ptr != 'x') return std::nullopt;
  const auto columns = std::from_chars(rows.ptr + 1, end, grid.columns);
  const auto is_fine = [](int64_t count) { return count >= 1 && count <= kMost; };
  if (columns.ec != std::errc() || columns.ptr != end || !is_fine(grid.rows) || !is_fine(grid.columns))
    return std::nullopt;
  return grid;
}

std::string name_of(const Grid& grid) {
  return std::to_string(grid.rows) + "x" + std::to_string(grid.columns);
}

Grid grid_of(const TileOptions& options, int64_t width, int64_t height) {
  if (options.max_patches > 0) return patches_of(options, width, height);
  if (options.longest_edge > 0 && options.splits) {
    const int64_t side = options.square.size;
    const Size size = in_whole_squares(with_longest_edge({width, height}, options.longest_edge), side);
    const Grid grid{.rows = size.height / side, .columns = size.width / side};
    return grid.tiles() > 1 ? grid : Grid();
  }
  Grid best;
  int64_t most_seen = 0, least_wasted = std::numeric_limits<int64_t>::max();
  for (const Grid& grid : options.grids) {
    const int64_t rows = grid.rows * options.square.size, columns = grid.columns * options.square.size;
    const double scale = std::min(static_cast<double>(columns) / static_cast<double>(width),
                                  static_cast<double>(rows) / static_cast<double>(height));
    const auto scaled = [&](int64_t side) { return static_cast<int64_t>(static_cast<double>(side) * scale); };
    const int64_t seen = std::min(scaled(width) * scaled(height), width * height),
                  wasted = rows * columns - seen;
    if (seen < most_seen || (seen == most_seen && wasted >= least_wasted)) continue;
    best = grid, most_seen = seen, least_wasted = wasted;
  }
  return best;
}

std::vector<Image> squares_of(const Image& image, const TileOptions& options) {
  if (options.longest_edge > 0) return split(image, options);
  const int64_t side = options.square.size;
  const Grid grid = grid_of(options, image.width, image.height);
  std::vector<Image> squares;
  if (options.max_patches > 0) {
    add_tiles(in_whole_patches(image, options), grid, side, squares);
    return squares;
  }
  squares.push_back(squared(image, options.square));
  if (grid.tiles() == 0) return squares;
  const int64_t width = grid.columns * side, height = grid.rows * side;
  const Image scaled = scaled_into(image, width, height, options.square.filter);
  Image large = black(width, height);
  paste(scaled, large, (width - scaled.width) / 2, (height - scaled.height) / 2);
  add_tiles(large, grid, side, squares);
  return squares;
}

Image seen_of(const Image& image, const TileOptions& options) {
  if (options.max_patches > 0) return in_whole_patches(image, options);
  const Grid grid = grid_of(options, image.width, image.height);
  if (grid.tiles() == 0) return squared(image, options.square);
  const int64_t side = options.square.size;
  return scaled_into(image, grid.columns * side, grid.rows * side, options.square.filter);
}

std::vector<float> numbers_of(const Image& image, const TileOptions& options) {
  const std::vector<Image> squares = squares_of(image, options);
  const auto numbers = static_cast<size_t>(3 * options.square.size * options.square.size);
  std::vector<float> result(squares.size() * numbers);
  for (size_t i = 0; i < squares.size(); ++i)
    normalize(squares[i], options.square, result.data() + i * numbers);
  return result;
}

}  // namespace pipeline::images
