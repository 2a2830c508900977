// Pictures as several squares, beside what transformers' processors make of them:
// tests/parity/record_images.py.
#include "plugins/data/images/tiles.hpp"

#include <gtest/gtest.h>

#include "tests/data/images/pictures.hpp"

namespace pipeline::images {
namespace {

TileOptions with_grids(int64_t side, std::vector<Grid> grids) {
  return {.square = {.size = side, .mode = ResizeMode::kSquash}, .grids = std::move(grids)};
}

TEST(Tiles, SquaresAreThoseOfLlavaNext) {
  const auto records = tests::recorded("squares.json");
  ASSERT_FALSE(records.at("tiles").empty());
  for (const auto& record : records.at("tiles")) {
    SCOPED_TRACE(record.at("from").dump() + ", " + record.at("grids").dump());
    std::vector<Grid> grids;
    for (const auto& grid : record.at("grids")) grids.push_back({grid.at(0), grid.at(1)});
    const std::vector<Image> squares =
        squares_of(tests::patterned(record.at("from").at(0), record.at("from").at(1)), with_grids(4, grids));
    ASSERT_EQ(squares.size(), record.at("squares").size());
    for (size_t i = 0; i < squares.size(); ++i)
      EXPECT_EQ(squares[i], (Image{4, 4, tests::from_hex(record.at("squares").at(i))})) << i;
  }
}

TEST(Tiles, SquaresAreThoseOfIdefics3) {
  const auto records = tests::recorded("squares.json");
  ASSERT_FALSE(records.at("split").empty());
  for (const auto& record : records.at("split")) {
    SCOPED_TRACE(record.at("from").dump() + ", " + record.at("longest_edge").dump());
    TileOptions options = with_grids(4, {});
    options.square.filter = Filter::kLanczos;
    options.longest_edge = record.at("longest_edge");
    options.splits = record.at("split");
    const int64_t width = record.at("from").at(0), height = record.at("from").at(1);
    const std::vector<Image> squares = squares_of(tests::patterned(width, height), options);
    ASSERT_EQ(squares.size(), record.at("squares").size());
    EXPECT_EQ(static_cast<size_t>(1 + grid_of(options, width, height).tiles()), squares.size());
    for (size_t i = 0; i < squares.size(); ++i)
      EXPECT_EQ(squares[i], (Image{4, 4, tests::from_hex(record.at("squares").at(i))})) << i;
  }
}

TEST(Tiles, TheGridIsTheSmallestInWhichMostIsSeen) {
  const std::vector<Grid> grids{{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}};
  const auto chosen = [&](int64_t width, int64_t height) {
    return name_of(grid_of(with_grids(336, grids), width, height));
  };
  EXPECT_EQ(chosen(100, 100), "1x2") << "all of it is seen in each: the first of the smallest";
  EXPECT_EQ(chosen(1000, 1000), "2x2");
  EXPECT_EQ(chosen(900, 300), "1x3");
  EXPECT_EQ(chosen(300, 900), "3x1");
  EXPECT_EQ(chosen(2000, 500), "1x3");
  EXPECT_EQ(chosen(65535, 1), "1x2") << "nothing of it is seen in any: the first, as transformers has it";
  EXPECT_EQ(grid_of(with_grids(336, {}), 5, 5).tiles(), 0);
}

TEST(Tiles, WithoutGridsThereIsTheWholeAlone) {
  const Image image = tests::patterned(9, 7);
  const TileOptions options{.square = {.size = 4}, .grids = {}};
  const std::vector<Image> squares = squares_of(image, options);
  ASSERT_EQ(squares.size(), 1u);
  EXPECT_EQ(squares[0], squared(image, options.square));
  std::vector<float> numbers(3 * 4 * 4);
  resize_image(image, options.square, numbers.data());
  EXPECT_EQ(numbers_of(image, options), numbers);
  EXPECT_EQ(seen_of(image, options), squares[0]);
  const Image seen = seen_of(image, with_grids(4, {{2, 2}}));
  EXPECT_EQ(std::pair(seen.width, seen.height), std::pair(int64_t{8}, int64_t{7})) << "in its own shape";
}

TEST(Tiles, GridsHaveNames) {
  EXPECT_EQ(grid_named("2x3"), (Grid{2, 3}));
  EXPECT_EQ(name_of({12, 1}), "12x1");
  for (const char* text :
       {"", "2", "2x", "x2", "2x3x", "0x1", "1x65", "-1x2", "2 x 3", "99999999999999999999x1"})
    EXPECT_FALSE(grid_named(text)) << text;
}

}  // namespace
}  // namespace pipeline::images
