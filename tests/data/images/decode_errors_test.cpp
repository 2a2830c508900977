#include <gmock/gmock.h>
#include <zlib.h>

#include <cstdio>

#include <jpeglib.h>  // after <cstdio>, which it needs

#include "tests/data/images/pictures.hpp"
#include "tests/support/test_files.hpp"

namespace {

using namespace pipeline::tests;
using pipeline::images::DecodeOptions;
using pipeline::images::ImageError;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What decoding says, or nothing where it makes a picture.
std::string error_of(const std::string& bytes, const DecodeOptions& options = {}) {
  return message_of<ImageError>([&] { decode(bytes, options); }, "");
}

std::string with(std::string bytes, size_t at, const std::string& replacement) {
  return bytes.replace(at, replacement.size(), replacement);
}

std::string chunk(const std::string& name, const std::string& data) {
  const std::string summed = name + data;
  const auto number = [](uint64_t value) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 255);
    return text;
  };
  return number(data.size()) + summed +
         number(::crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size())));
}

std::string packed(const std::string& data) {
  uLongf size = ::compressBound(data.size());
  std::string out(size, '\0');
  ::compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
             data.size());
  return out.substr(0, size);
}

TEST(DecodeErrors, UnknownFormatsShowTheirFirstBytes) {
  EXPECT_EQ(error_of(""), "no picture: empty");
  EXPECT_EQ(error_of("II*"),
            "no picture in a known format: it starts with the bytes 49 49 2a; JPEG, PNG, WebP and GIF are "
            "read: convert it to one of them");
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
  EXPECT_EQ(error_of(repeated + "\xff\xd9"),
            "JPEG, 18x10 pixels: broken: more than 500 scans, which is for its size too much work");
}

// A grey picture of one colour, and its last scan 20 times more.
TEST(DecodeErrors, ALargePictureMayHaveFewScans) {
  constexpr int kSide = 5200;
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = info.image_height = kSide;
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> line(kSide, 127);
  JSAMPROW row = line.data();
  for (int y = 0; y < kSide; ++y) jpeg_write_scanlines(&info, &row, 1);
  jpeg_finish_compress(&info);
  const std::string bytes(reinterpret_cast<const char*>(out), size);
  jpeg_destroy_compress(&info);
  std::free(out);

  const size_t scan = bytes.rfind("\xff\xda");
  const std::string last = bytes.substr(scan, bytes.size() - 2 - scan);
  std::string repeated = bytes.substr(0, bytes.size() - 2);
  for (int i = 0; i < 20; ++i) repeated += last;
  EXPECT_EQ(error_of(repeated + "\xff\xd9"),
            "JPEG, 5200x5200 pixels: broken: more than 20 scans, which is for its size too much work");
}

// A PNG of 9x8 grey pixels with these chunks before its data, which begin with `packed`.
std::string png_with(const std::string& chunks, const std::string& packed) {
  const std::string bytes = picture("grey8.png");
  return bytes.substr(0, 33) + chunks + chunk("IDAT", packed) + chunk("IEND", "");
}

TEST(DecodeErrors, PngsWithFarMoreDataThanPixels) {
  const std::string pixels(8 * 10, '\0');
  EXPECT_EQ(error_of(png_with("", packed(pixels))), "");
  EXPECT_EQ(error_of(png_with("", packed(pixels + std::string(100'000, '\0')))), "") << "as in Pillow";
  EXPECT_EQ(error_of(png_with("", packed(pixels + std::string(50'000'000, '\0')))),
            "PNG, 9x8 pixels: broken: it has far more data than its pixels are made of");
  const std::string xmp =
      std::string("XML:com.adobe.xmp\0\1\0\0\0", 22) + packed(std::string(2'000'000, ' '));
  EXPECT_EQ(error_of(png_with(chunk("iTXt", xmp), packed(pixels))),
            "PNG, 9x8 pixels: broken: its XMP data unpack to more than 1048576 bytes");
}

TEST(DecodeErrors, PngsThatLoseTransparencyOrRotation) {
  EXPECT_EQ(error_of(png_with(chunk("tRNS", std::string(3, '\0')), packed(std::string(80, '\0')))),
            "PNG: broken: tRNS: invalid");
  const std::string turned = picture("turned6.png");
  EXPECT_EQ(error_of(with(turned, turned.find("eXIf") + 8, "x")), "PNG: broken: eXIf: CRC error");
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
  EXPECT_EQ(error_of(with(gif, 61, ";")), "GIF, 15x10 pixels: broken: no frame");
  EXPECT_EQ(error_of(std::string(gif).insert(61, "??")), "") << "passed over, as in Pillow";
  EXPECT_EQ(error_of(with(gif, 61 + 10, "\x0d")), "GIF, 15x10 pixels: broken: codes of 13 bits");
  // The first code, of five bits, clears the table; then 31 is none, and 17 is the end.
  EXPECT_EQ(error_of(with(gif, 61 + 12, "\xf0\x03")),
            "GIF, 15x10 pixels: broken: a code that stands for nothing");
  EXPECT_EQ(error_of(with(gif, 61 + 12, "\x30\x02")),
            "GIF, 15x10 pixels: broken: its data end before its pixels do");
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
            "decompression bomb");
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
