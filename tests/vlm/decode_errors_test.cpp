#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/vlm/pictures.hpp"

namespace {

using namespace pipeline::tests;
using pipeline::vlm::DecodeOptions;
using pipeline::vlm::ImageError;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What decoding says, or nothing where it makes a picture.
std::string error_of(const std::string& bytes, const DecodeOptions& options = {}) {
  try {
    decode(bytes, options);
    return "";
  } catch (const ImageError& error) {
    return error.what();
  }
}

std::string with(std::string bytes, size_t at, const std::string& replacement) {
  return bytes.replace(at, replacement.size(), replacement);
}

TEST(DecodeErrors, UnknownFormatsShowTheirFirstBytes) {
  EXPECT_EQ(error_of(""), "no picture: empty");
  EXPECT_EQ(error_of("II*"),
            "no picture in a known format: it starts with the bytes 49 49 2a; JPEG, PNG, WebP and "
            "GIF are read: convert it to one of them");
  EXPECT_THAT(error_of("<svg xmlns='http://www.w3.org/2000/svg'/>"), HasSubstr("3c 73 76 67 20 78 6d 6c;"));
  EXPECT_THAT(error_of("RIFF\x10\0\0\0WAVE"), StartsWith("no picture in a known format"));
}

// GIF is read up to the end of its first frame, and no further.
TEST(DecodeErrors, NoStartOfAFileIsAPicture) {
  for (const std::string name :
       {"colour420.jpg", "progressive.jpg", "cmyk.jpg", "grey.jpg", "colour8.png", "grey1.png",
        "alpha8-interlaced.png", "lossy.webp", "lossless-alpha.webp", "animation.webp"}) {
    SCOPED_TRACE(name);
    const std::string bytes = picture(name);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string error = error_of(bytes.substr(0, size));
      EXPECT_NE(error, "") << size << " of " << bytes.size() << " bytes";
      if (size >= 30) {
        EXPECT_THAT(error, HasSubstr("truncated: it ends after " + std::to_string(size) + " bytes"));
      }
    }
  }
  const std::string gif = picture("plain.gif");
  for (size_t size = 0; size < gif.size() - 2; ++size) EXPECT_NE(error_of(gif.substr(0, size)), "") << size;
  EXPECT_EQ(error_of(gif.substr(0, 100)), "GIF, 15x10 pixels: truncated: it ends after 100 bytes");
}

TEST(DecodeErrors, JpegWithLostDataIsNoGreyPicture) {
  const std::string bytes = picture("colour444.jpg");
  EXPECT_EQ(error_of(bytes.substr(0, bytes.size() - 90) + "\xff\xd9"),
            "JPEG, 18x10 pixels: broken: Corrupt JPEG data: premature end of data segment");
  EXPECT_EQ(error_of(bytes.substr(0, 2) + "\xff\xd9"), "JPEG: broken: JPEG datastream contains no image");
}

TEST(DecodeErrors, ManyEmptyScansAreRefused) {
  const std::string bytes = picture("progressive.jpg");
  // The last one of all three channels has a bit a block, which may be stated again and again.
  const size_t scan = bytes.rfind(std::string("\xff\xda\0\x0c\x03", 5)), end = bytes.find("\xff\xc4", scan);
  std::string repeated = bytes.substr(0, scan);
  for (int i = 0; i < 600; ++i) repeated += bytes.substr(scan, end - scan);
  EXPECT_EQ(error_of(repeated + "\xff\xd9"), "JPEG, 18x10 pixels: broken: more than 500 scans");
}

TEST(DecodeErrors, DamagedPngs) {
  const std::string bytes = picture("colour8.png");
  EXPECT_EQ(error_of(with(bytes, bytes.size() - 40, "????")),
            "PNG, 9x8 pixels: broken: IDAT: incorrect data check");
  EXPECT_EQ(error_of(with(bytes, 25, "\x09")), "PNG: broken: IHDR: CRC error");
}

TEST(DecodeErrors, DamagedWebpsAndGifs) {
  const std::string webp = picture("lossless.webp");
  EXPECT_EQ(error_of(with(webp, 25, std::string(40, '\xff'))),
            "WebP, 17x11 pixels: broken: its first frame cannot be decoded");
  EXPECT_EQ(error_of(with(webp, 12, "JUNK")), "WebP: broken: its parts do not fit together");
  const std::string gif = picture("plain.gif");
  EXPECT_EQ(error_of(with(gif, 61, "?")), "GIF: broken: Wrong record type detected");
  EXPECT_EQ(error_of(with(gif, 61, ";")), "GIF, 15x10 pixels: broken: no frame");
}

TEST(DecodeErrors, PicturesWithoutPixels) {
  const std::string gif = picture("plain.gif");
  EXPECT_EQ(error_of(with(gif, 61 + 5, std::string(2, '\0'))),
            "GIF, 15x10 pixels: broken: its first frame has no pixels");
  EXPECT_EQ(error_of(with(with(gif, 6, std::string(4, '\0')), 61 + 5, std::string(4, '\0'))),
            "GIF: 0x0 pixels: it has none to show");
}

TEST(DecodeErrors, TooManyPixelsAreFoundInTheHeader) {
  const DecodeOptions few{.max_pixels = 71}, narrow{.max_side = 8};
  EXPECT_EQ(error_of(picture("colour8.png"), few),
            "PNG: 9x8 are 72 pixels, and 71 are allowed: scale it down, or raise the limit if it is no "
            "decompression "
            "bomb");
  EXPECT_EQ(error_of(picture("colour8.png"), {.max_pixels = 72}), "");
  EXPECT_EQ(error_of(picture("colour8.png"), narrow),
            "PNG: 9x8 pixels, and a side may have 8: scale it down");
  for (const std::string name : {"colour444.jpg", "lossy.webp", "animation.webp", "plain.gif"}) {
    EXPECT_THAT(error_of(picture(name), few), HasSubstr("pixels, and 71 are allowed")) << name;
  }
  // Sizes that a header alone states: there is no data behind them, which would be the next thing to fail.
  const std::string jpeg = picture("grey.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  EXPECT_THAT(error_of(with(jpeg, frame + 5, "\xff\xdc\xff\xdc")),
              HasSubstr("JPEG: 65500x65500 are 4290250000"));
  const std::string gif = picture("plain.gif");
  EXPECT_THAT(error_of(with(gif, 6, "\xff\xff\xff\xff")),
              HasSubstr("GIF: 65535x65535 are 4294836225 pixels"));
}

}  // namespace
