// PNG by libpng. The library leaves a failed call by longjmp: each step that calls it keeps only what has no
// destructor between setjmp and the library.
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "plugins/data/images/formats.hpp"

namespace pipeline::images {
namespace {

// Chunks that we read: how the picture is to be turned. Of others beside the picture only sums are checked.
constexpr png_byte kAbout[] = "eXIf\0iTXt";
// The most bytes beside the pixels': of a file, whose sums are checked, and of packed data after the last
// row, which make a thousand times as much to pass over.
constexpr size_t kMostBeside = size_t{1} << 26, kMostSpare = size_t{1} << 14;
constexpr const char* kFarMore = "it has far more data than its pixels are made of";
// The most bytes of XMP data, unpacked, as in Pillow.
constexpr size_t kMostXmp = size_t{1} << 20;
constexpr const char* kClipped =
    "of its 16 bits of grey what is above 255 is white, as in Pillow: convert it to 8 bits";

class PngReader {
 public:
  explicit PngReader(Bytes bytes) : bytes_(bytes), rest_(bytes) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp message) {
          static_cast<PngReader*>(png_get_error_ptr(png))->fail(message);
        },
        [](png_structp png, png_const_charp message) {
          // Without its tRNS chunk, a picture would not show what is transparent.
          if (std::string_view(message).starts_with("tRNS"))
            static_cast<PngReader*>(png_get_error_ptr(png))->fail(message);
        });
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Decoded read(const DecodeOptions& options) {
    step([this] {
      png_set_read_fn(png_, this, [](png_structp png, png_bytep out, size_t count) {
        static_cast<PngReader*>(png_get_io_ptr(png))->take(out, count);
      });
      constexpr auto kAnySide = static_cast<png_uint_32>(std::numeric_limits<int32_t>::max());
      png_set_user_limits(png_, kAnySide, kAnySide);  // ours are checked below
      png_set_chunk_malloc_max(png_, bytes_.size());
      png_set_chunk_cache_max(png_, 0);
      png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_ALWAYS, kAbout, sizeof(kAbout) / 5);
      png_read_info(png_, info_);
    });
    width_ = png_get_image_width(png_, info_);
    height_ = png_get_image_height(png_, info_);
    check_size("PNG", width_, height_, options);
    constexpr int64_t kPixelBytes = 8;  // at most
    if (bytes_.size() > kMostBeside + static_cast<size_t>(width_ * height_ * kPixelBytes))
      throw broken("PNG", width_, height_, std::string("broken: ") + kFarMore);
    const bool is_grey16 =
        png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png_, info_) == 16;
    step([this, is_grey16] {
      if (!is_grey16) {
        png_set_expand(png_);    // palettes to RGB, grey to 8 bits, a transparent colour to alpha
        png_set_strip_16(png_);  // as Pillow does for colours
        png_set_gray_to_rgb(png_);
      }
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });

    Decoded decoded;
    if (is_grey16) {
      std::vector<uint8_t> grey(static_cast<size_t>(width_ * height_ * 2));
      read_rows(grey, width_ * 2);
      decoded.allocate(width_, height_, 3);
      if (clip(grey, decoded.pixels) && options.note) options.note(kClipped);
    } else {
      decoded.allocate(width_, height_, png_get_channels(png_, info_));
      read_rows(decoded.pixels, width_ * decoded.channels);
    }
    decoded.orientation = orientation();
    return decoded;
  }

 private:
  void fail(const char* message) {
    std::strncpy(message_, message, sizeof(message_) - 1);
    std::longjmp(failed_, 1);
  }

  void read_rows(std::vector<uint8_t>& pixels, int64_t row_bytes) {
    std::vector<png_bytep> rows(static_cast<size_t>(height_));
    for (size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + static_cast<int64_t>(y) * row_bytes;
    step([this, &rows] {
      is_reading_rows_ = true;
      png_read_image(png_, rows.data());
      is_reading_rows_ = false;
      png_read_end(png_, info_);
    });
  }

  // 16 bits to 8 as Pillow does it for grey, and for grey alone. True: there were larger values.
  static bool clip(const std::vector<uint8_t>& grey, std::vector<uint8_t>& out) {
    bool is_clipped = false;
    for (size_t i = 0; 2 * i < grey.size(); ++i) {
      const uint8_t high = grey[2 * i], value = high > 0 ? 255 : grey[2 * i + 1];
      is_clipped |= high > 0;
      std::fill_n(out.begin() + static_cast<int64_t>(3 * i), 3, value);
    }
    return is_clipped;
  }

  bool has_all_rows() const {
    constexpr int kPasses = 7;
    return png_get_interlace_type(png_, info_) == PNG_INTERLACE_NONE
               ? png_get_current_row_number(png_) >= static_cast<png_uint_32>(height_)
               : png_get_current_pass_number(png_) >= kPasses;
  }

  void take(png_bytep out, size_t count) {
    truncated_ = count > rest_.size();
    if (truncated_) png_error(png_, "");
    if (is_reading_rows_ && has_all_rows() && (spare_ += count) > kMostSpare) png_error(png_, kFarMore);
    std::memcpy(out, rest_.data(), count);
    rest_ = rest_.subspan(count);
  }

  // Runs a step of calls to the library.
  template <typename Step>
  void step(Step calls) {
    if (guarded(calls)) return;
    throw broken("PNG", width_, height_,
                 truncated_ ? "truncated: it ends after " + std::to_string(bytes_.size()) + " bytes"
                            : std::string("broken: ") + message_);
  }

  template <typename Step>
  bool guarded(Step& calls) {
    if (setjmp(failed_) != 0) return false;  // NOLINT(cert-err52-cpp): the library's way to fail
    calls();
    return true;
  }

  Orientation orientation() {
    png_unknown_chunkp chunks = nullptr;
    const int count = png_get_unknown_chunks(png_, info_, &chunks);
    Bytes exif;
    std::string_view xmp;  // after its key
    constexpr std::string_view kKey("XML:com.adobe.xmp\0", 18);
    for (const png_unknown_chunk& chunk : std::span(chunks, static_cast<size_t>(count))) {
      const std::string_view data(reinterpret_cast<const char*>(chunk.data), chunk.size);
      if (std::memcmp(chunk.name, "eXIf", 4) == 0) {
        exif = {chunk.data, chunk.size};
      } else if (data.starts_with(kKey)) {
        xmp = data.substr(kKey.size());
      }
    }
    const std::string text = text_of(xmp);
    return stated_orientation(exif, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }

  // The text of an iTXt chunk. `data` is what follows its key: whether it is packed and how, language, the
  // key in that language, and the text. Empty where it is damaged.
  std::string text_of(std::string_view data) const {
    if (data.size() < 2) return "";
    const bool is_packed = data[0] != 0, is_known = data[1] == 0;
    data.remove_prefix(2);
    for (int i = 0; i < 2; ++i) {
      const size_t end = data.find('\0');
      if (end == data.npos) return "";
      data.remove_prefix(end + 1);
    }
    return !is_packed ? std::string(data) : is_known ? unpacked(data) : "";
  }

  std::string unpacked(std::string_view packed) const {
    z_stream stream{};
    if (::inflateInit(&stream) != Z_OK) throw std::bad_alloc();
    std::string text(kMostXmp, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(text.data());
    stream.avail_out = static_cast<uInt>(text.size());
    const int result = ::inflate(&stream, Z_SYNC_FLUSH);
    text.resize(stream.total_out);
    ::inflateEnd(&stream);
    if (result == Z_OK && stream.avail_in > 0)
      throw broken("PNG", width_, height_,
                   "broken: its XMP data unpack to more than " + std::to_string(kMostXmp) + " bytes");
    return result == Z_DATA_ERROR ? "" : text;
  }

  Bytes bytes_, rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int64_t width_ = 0, height_ = 0;
  bool truncated_ = false, is_reading_rows_ = false;
  size_t spare_ = 0;  // bytes taken since the last row
  std::jmp_buf failed_{};
  char message_[200] = "";
};

}  // namespace

Decoded decode_png(Bytes bytes, const DecodeOptions& options) { return PngReader(bytes).read(options); }

std::string encode_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(png), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0)
    throw ImageError(std::string("PNG cannot be written: ") + png.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace pipeline::images
