// PNG by libpng. The library leaves a failed call by longjmp: each step that calls it keeps only what has no
// destructor between setjmp and the library.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <limits>

#include "plugins/tasks/vlm/images/formats.hpp"
#include "plugins/tasks/vlm/images/orientation.hpp"

namespace pipeline::vlm {
namespace {

// Not read: what a picture in RGB does not need and could make much work.
constexpr png_byte kIgnored[] = "iCCP\0tEXt\0zTXt\0sPLT\0hIST";

class PngReader {
 public:
  explicit PngReader(Bytes bytes) : bytes_(bytes), rest_(bytes) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp message) {
          static_cast<PngReader*>(png_get_error_ptr(png))->fail(message);
        },
        [](png_structp, png_const_charp) {});
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
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kIgnored, sizeof(kIgnored) / 5);
      png_read_info(png_, info_);
    });
    width_ = png_get_image_width(png_, info_);
    height_ = png_get_image_height(png_, info_);
    check_size("PNG", width_, height_, options);
    step([this] {
      png_set_expand(png_);    // palettes to RGB, grey to 8 bits, a transparent colour to alpha
      png_set_strip_16(png_);  // as Pillow does for colours
      png_set_gray_to_rgb(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });

    Decoded decoded;
    decoded.allocate(width_, height_, png_get_channels(png_, info_));
    std::vector<png_bytep> rows(static_cast<size_t>(height_));
    for (size_t y = 0; y < rows.size(); ++y) {
      rows[y] = decoded.pixels.data() + static_cast<int64_t>(y) * width_ * decoded.channels;
    }
    step([this, &rows] {
      png_read_image(png_, rows.data());
      png_read_end(png_, info_);
    });
    decoded.orientation = orientation();
    return decoded;
  }

 private:
  void fail(const char* message) {
    std::strncpy(message_, message, sizeof(message_) - 1);
    std::longjmp(failed_, 1);
  }

  void take(png_bytep out, size_t count) {
    truncated_ = count > rest_.size();
    if (truncated_) png_error(png_, "");
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

  int orientation() {
    png_uint_32 size = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &size, &exif) == 0) size = 0;
    png_textp texts = nullptr;
    const int count = png_get_text(png_, info_, &texts, nullptr);
    Bytes xmp;
    for (const png_text& text : std::span(texts, static_cast<size_t>(count)))
      if (std::strcmp(text.key, "XML:com.adobe.xmp") == 0)
        xmp = {reinterpret_cast<const uint8_t*>(text.text), text.itxt_length};
    return stated_orientation({exif, size}, xmp);
  }

  Bytes bytes_, rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int64_t width_ = 0, height_ = 0;
  bool truncated_ = false;
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

}  // namespace pipeline::vlm
