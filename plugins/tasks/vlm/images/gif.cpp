// GIF by giflib: the first frame on its screen.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "plugins/tasks/vlm/images/formats.hpp"

namespace pipeline::vlm {
namespace {

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using Gif = std::unique_ptr<GifFileType, CloseGif>;

int take(GifFileType* gif, GifByteType* out, int count) {
  Bytes& rest = *static_cast<Bytes*>(gif->UserData);
  const size_t taken = std::min(rest.size(), static_cast<size_t>(count));
  std::memcpy(out, rest.data(), taken);
  rest = rest.subspan(taken);
  return static_cast<int>(taken);
}

class GifReader {
 public:
  explicit GifReader(Bytes bytes) : bytes_(bytes), rest_(bytes) {
    int code = 0;
    gif_.reset(DGifOpen(&rest_, take, &code));
    if (!gif_) throw problem(code);
  }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;

  Decoded read(const DecodeOptions& options) {
    find_frame();
    const GifImageDesc& frame = gif_->Image;
    // A frame that reaches beyond the screen enlarges it, as in Pillow.
    width_ = std::max(gif_->SWidth, frame.Left + frame.Width);
    height_ = std::max(gif_->SHeight, frame.Top + frame.Height);
    check_size("GIF", width_, height_, options);
    if (frame.Width == 0 || frame.Height == 0) {
      throw broken("GIF", width_, height_, "broken: its first frame has no pixels");
    }

    // Where the frame does not reach the screen has the transparent colour, or the first one, as in Pillow.
    std::vector<uint8_t> indices(static_cast<size_t>(width_ * height_),
                                 static_cast<uint8_t>(std::max(transparent_, 0)));
    const auto read_row = [&](int64_t y) {
      uint8_t* const row = indices.data() + (frame.Top + y) * width_ + frame.Left;
      if (DGifGetLine(gif_.get(), row, frame.Width) != GIF_OK) throw problem(gif_->Error);
    };
    static constexpr struct {
      int first, step;
    } kWhole[] = {{0, 1}}, kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
    for (const auto& pass : frame.Interlace ? std::span(kInterlaced) : std::span(kWhole, 1)) {
      for (int64_t y = pass.first; y < frame.Height; y += pass.step) read_row(y);
    }
    return colored(indices);
  }

 private:
  ImageError problem(int code) const {
    if (rest_.empty()) {
      return broken("GIF", width_, height_,
                    "truncated: it ends after " + std::to_string(bytes_.size()) + " bytes");
    }
    const char* const text = GifErrorString(code);
    return broken("GIF", width_, height_,
                  std::string("broken: ") + (text != nullptr ? text : "unknown error"));
  }

  // Reads up to the description of the first frame, and the colour that is transparent in it.
  void find_frame() {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    while (true) {
      if (DGifGetRecordType(gif_.get(), &type) != GIF_OK) throw problem(gif_->Error);
      if (type == IMAGE_DESC_RECORD_TYPE) break;
      if (type == TERMINATE_RECORD_TYPE) throw broken("GIF", gif_->SWidth, gif_->SHeight, "broken: no frame");
      int code = 0;
      GifByteType* block = nullptr;  // its size, and as many bytes
      if (DGifGetExtension(gif_.get(), &code, &block) != GIF_OK) throw problem(gif_->Error);
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
          DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent_ = control.TransparentColor;
      }
      while (block != nullptr) {
        if (DGifGetExtensionNext(gif_.get(), &block) != GIF_OK) throw problem(gif_->Error);
      }
    }
    if (DGifGetImageDesc(gif_.get()) != GIF_OK) throw problem(gif_->Error);
  }

  // The pixels of these indices into the palette. Beyond it they are black, and grey where a file has none.
  Decoded colored(const std::vector<uint8_t>& indices) const {
    const ColorMapObject* const palette =
        gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    const int colors = palette != nullptr ? palette->ColorCount : 256;
    uint8_t table[256][4];
    for (int i = 0; i < 256; ++i) {
      const auto grey = static_cast<uint8_t>(i);
      const GifColorType color = palette == nullptr ? GifColorType{grey, grey, grey}
                                 : i < colors       ? palette->Colors[i]
                                                    : GifColorType{};
      const uint8_t rgba[] = {color.Red, color.Green, color.Blue,
                              static_cast<uint8_t>(i == transparent_ ? 0 : 255)};
      std::memcpy(table[i], rgba, 4);
    }

    Decoded decoded;
    decoded.allocate(width_, height_, transparent_ >= 0 ? 4 : 3);
    uint8_t* out = decoded.pixels.data();
    if (decoded.channels == 4) {
      for (const uint8_t index : indices) std::memcpy(std::exchange(out, out + 4), table[index], 4);
    } else {
      for (const uint8_t index : indices) std::memcpy(std::exchange(out, out + 3), table[index], 3);
    }
    return decoded;
  }

  Bytes bytes_, rest_;
  Gif gif_;
  int64_t width_ = 0, height_ = 0;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

}  // namespace

Decoded decode_gif(Bytes bytes, const DecodeOptions& options) { return GifReader(bytes).read(options); }

}  // namespace pipeline::vlm
