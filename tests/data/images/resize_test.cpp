#include "plugins/data/images/resize.hpp"

#include <gtest/gtest.h>

#include "tests/data/images/pictures.hpp"

namespace {

using namespace pipeline::tests;
using namespace pipeline::images;

Image patterned_as(const nlohmann::json& size) { return patterned(size.at(0), size.at(1)); }

TEST(Resample, PixelsArePillows) {
  const auto records = recorded("squares.json");
  ASSERT_FALSE(records.at("resized").empty());
  for (const auto& record : records.at("resized")) {
    SCOPED_TRACE(record.at("from").dump() + " to " + record.at("width").dump() + ", " +
                 record.at("height").dump() + ", " + record.at("filter").dump());
    const int64_t width = record.at("width"), height = record.at("height");
    const Filter filter = record.at("filter") == "bilinear"  ? Filter::kBilinear
                          : record.at("filter") == "lanczos" ? Filter::kLanczos
                                                             : Filter::kBicubic;
    const Image resized =
        resample(patterned_as(record.at("from")), width, height, {0, 0, width, height}, filter);
    EXPECT_EQ(resized, (Image{width, height, from_hex(record.at("pixels"))}));
  }
}

TEST(Resample, AWindowIsAPartOfTheWhole) {
  const Image image = patterned(50, 35);
  for (const auto& [width, height] :
       {std::pair(20, 30), std::pair(50, 30), std::pair(20, 35), std::pair(50, 35)}) {
    const Image whole = resample(image, width, height, {0, 0, width, height});
    const Window window{3, 5, 11, 7};
    const Image part = resample(image, width, height, window);
    ASSERT_EQ(part.pixels.size(), 3u * 11 * 7);
    for (int64_t y = 0; y < window.height; ++y) {
      EXPECT_TRUE(std::equal(part.pixels.begin() + y * 33, part.pixels.begin() + (y + 1) * 33,
                             whole.pixels.begin() + ((y + window.top) * width + window.left) * 3))
          << width << "x" << height << ", row " << y;
    }
  }
}

TEST(Squared, SquaresAreThoseOfTheProcessors) {
  const auto records = recorded("squares.json");
  ASSERT_FALSE(records.at("squares").empty());
  for (const auto& record : records.at("squares")) {
    SCOPED_TRACE(record.at("from").dump() + ", " + record.at("fit").dump() + ", " +
                 record.at("shortest_edge").dump());
    ResizeOptions options;
    const std::string fit = record.at("fit");
    options.mode = fit == "crop" ? ResizeMode::kCrop : fit == "pad" ? ResizeMode::kPad : ResizeMode::kSquash;
    options.shortest_edge = record.at("shortest_edge");
    options.size = record.at("width");
    const Image square = squared(patterned_as(record.at("from")), options);
    EXPECT_EQ(square, (Image{options.size, options.size, from_hex(record.at("pixels"))}));
  }
}

TEST(Squared, AStripIsNotPaddedBeyondTheLimit) {
  const Image strip{20'000, 1, std::vector<uint8_t>(60'000)};
  try {
    squared(strip, {.mode = ResizeMode::kPad});
    FAIL();
  } catch (const ImageError& error) {
    EXPECT_STREQ(error.what(),
                 "20000x1 pixels, padded to a square, are 400000000 pixels, and 178956970 are allowed: scale "
                 "it down or cut it");
  }
  EXPECT_EQ(squared(strip, {.mode = ResizeMode::kCrop}).pixels.size(), 3u * 224 * 224);
}

TEST(ResizeImage, NumbersAreThoseOfClip) {
  const std::vector<float> expected = recorded("squares.json").at("normalized");
  std::vector<float> numbers(3 * 4 * 4);
  resize_image(patterned(9, 7), {.size = 4}, numbers.data());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_FLOAT_EQ(numbers[i], expected[i]) << i;
}

}  // namespace
