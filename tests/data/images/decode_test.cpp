#include <gtest/gtest.h>
#include <zlib.h>

#include <thread>

#include "tests/data/images/pictures.hpp"

namespace {

using namespace pipeline::tests;
using pipeline::images::Image;

// Other releases of the lossy formats' libraries round otherwise.
int tolerance(const std::string& name) { return name.ends_with(".jpg") || name.ends_with(".webp") ? 1 : 0; }

TEST(Decode, PixelsArePillows) {
  ASSERT_FALSE(recorded("pictures.json").empty());
  for (const auto& record : recorded("pictures.json")) {
    const std::string name = record.at("name");
    SCOPED_TRACE(name);
    const std::string bytes = picture(name);
    const Image dropped = decode(bytes, {.background = std::nullopt});
    EXPECT_EQ(dropped.width, record.at("width"));
    EXPECT_EQ(dropped.height, record.at("height"));
    EXPECT_LE(largest_difference(dropped.pixels, from_hex(record.at("pixels"))), tolerance(name));

    const Image over_white = decode(bytes);
    if (record.contains("over_white")) {
      EXPECT_LE(largest_difference(over_white.pixels, from_hex(record.at("over_white"))), tolerance(name));
    } else {
      EXPECT_EQ(over_white, dropped);
    }
  }
}

// A GIF with a changed bit is a picture where it is one to Pillow, and has the same pixels. A PNG has
// checksums; here all of them are checked, in Pillow a part.
TEST(Decode, DamageIsNeverTakenForPixels) {
  ASSERT_FALSE(recorded("damaged.json").empty());
  for (const auto& record : recorded("damaged.json")) {
    const std::string name = record.at("name");
    SCOPED_TRACE(record.dump());
    std::string bytes = picture(name);
    char& changed = bytes[record.at("at").get<size_t>()];
    changed = static_cast<char>(changed ^ 1 << record.at("bit").get<int>());
    nlohmann::json seen = nullptr;
    try {
      const Image image = decode(bytes, {.background = std::nullopt});
      seen = ::crc32(0, image.pixels.data(), static_cast<uInt>(image.pixels.size()));
    } catch (const pipeline::images::ImageError&) {
      if (name.ends_with(".png")) continue;
    }
    EXPECT_EQ(seen, record.at("seen"));
  }
}

TEST(Decode, TheBackgroundShowsThroughTransparentPixelsOnly) {
  const std::string bytes =
      picture("palette2-interlaced.png");  // its colours 0 to 3, of which 1 is transparent
  const Image dropped = decode(bytes, {.background = std::nullopt});
  const Image blended = decode(bytes, {.background = {{1, 2, 3}}});
  size_t behind = 0;
  for (size_t i = 0; i < dropped.pixels.size(); i += 3) {
    const bool transparent = dropped.pixels[i] == 16;
    for (size_t c = 0; c < 3; ++c)
      EXPECT_EQ(blended.pixels[i + c], transparent ? c + 1 : dropped.pixels[i + c]);
    behind += transparent;
  }
  EXPECT_GT(behind, 0u);
  EXPECT_LT(3 * behind, dropped.pixels.size());
}

TEST(Decode, DamagedExifDataTurnNothing) {
  const std::string bytes = picture("turned6.jpg");
  const size_t tiff = bytes.find("MM"), tag = bytes.find(std::string("\x01\x12\0\3", 4));
  ASSERT_NE(tag, std::string::npos);
  EXPECT_EQ(decode(bytes).width, 10);
  for (const auto& [at, value] :
       {std::pair(tiff, "XX"), std::pair(tiff + 4, "\xff\xff"), std::pair(tiff + 7, "\xf0"),
        std::pair(tag, "\x02"), std::pair(tag + 3, "\x02"), std::pair(tag + 7, "\x02"),
        std::pair(tag + 9, "\x09")}) {
    std::string note;
    const Image upright = decode(std::string(bytes).replace(at, std::string(value).size(), value),
                                 {.note = [&](const std::string& text) { note = text; }});
    EXPECT_EQ(upright.width, 18) << "byte " << at - tiff << " of the EXIF data";
    const bool states_another = at == tag || at == tag + 9;
    EXPECT_EQ(note,
              states_another ? "" : "its EXIF data are damaged: if they said how to turn it, that is lost");
  }
}

TEST(Decode, GreyThatIsCutOffIsSaid) {
  std::string note;
  decode(picture("grey16.png"), {.note = [&](const std::string& text) { note = text; }});
  EXPECT_EQ(note, "of its 16 bits of grey what is above 255 is white, as in Pillow: convert it to 8 bits");
}

TEST(Decode, IsTheSameInManyThreads) {
  const auto records = recorded("pictures.json");
  std::vector<std::string> files;
  std::vector<Image> alone;
  for (const auto& record : records) {
    files.push_back(picture(record.at("name")));
    alone.push_back(decode(files.back()));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < files.size(); ++i) EXPECT_EQ(decode(files[i]), alone[i]);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
