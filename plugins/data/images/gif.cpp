// GIF: the first frame on its screen. By hand, since giflib takes damage for pixels; what is a picture, and
// of which pixels, is as in Pillow.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "plugins/data/images/formats.hpp"

namespace pipeline::images {
namespace {

// Rows in the order in which a frame has them.
class RowOrder {
 public:
  RowOrder(int64_t height, bool is_interlaced)
      : height_(height), passes_(is_interlaced ? std::span<const Pass>(kInterlaced) : kWhole) {}

  int64_t row() const { return row_; }
  // False: there are no more.
  bool next() {
    row_ += passes_.front().step;
    while (row_ >= height_) {
      passes_ = passes_.subspan(1);
      if (passes_.empty()) return false;
      row_ = passes_.front().first;
    }
    return true;
  }

 private:
  struct Pass {
    int first, step;
  };
  static constexpr Pass kWhole[] = {{0, 1}}, kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};

  int64_t height_, row_ = 0;
  std::span<const Pass> passes_;
};

class GifReader {
 public:
  explicit GifReader(Bytes bytes) : bytes_(bytes), rest_(bytes) {}

  Decoded read(const DecodeOptions& options) {
    take(6);  // the signature
    width_ = number(), height_ = number();
    const uint8_t flags = byte();
    take(2);  // background and shape of pixels
    if ((flags & 0x80) != 0) read_palette(flags);
    find_frame();
    left_ = number(), top_ = number();
    frame_width_ = number(), frame_height_ = number();
    // A frame that reaches beyond the screen enlarges it.
    width_ = std::max(width_, left_ + frame_width_);
    height_ = std::max(height_, top_ + frame_height_);
    check_size("GIF", width_, height_, options);
    if (frame_width_ == 0 || frame_height_ == 0) fail("its first frame has no pixels");
    const uint8_t frame_flags = byte();
    if ((frame_flags & 0x80) != 0) read_palette(frame_flags);

    // Where the frame does not reach, the screen has the transparent colour, or the first one.
    indices_.assign(static_cast<size_t>(width_ * height_), static_cast<uint8_t>(std::max(transparent_, 0)));
    unpack(RowOrder(frame_height_, (frame_flags & 0x40) != 0));
    return colored();
  }

 private:
  static constexpr int kMostBits = 12, kMostCodes = 1 << kMostBits;

  [[noreturn]] void fail(const std::string& problem) const {
    throw broken("GIF", width_, height_, "broken: " + problem);
  }

  Bytes take(size_t count) {
    if (count > rest_.size())
      throw broken("GIF", width_, height_,
                   "truncated: it ends after " + std::to_string(bytes_.size()) + " bytes");
    const Bytes taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  uint8_t byte() { return take(1)[0]; }
  int64_t number() {
    const Bytes two = take(2);
    return two[0] | two[1] << 8;
  }
  Bytes block() { return take(byte()); }

  // A palette that only makes each index its own grey does not count: then indices beyond it are grey, too,
  // and not black.
  void read_palette(uint8_t flags) {
    palette_ = take(size_t{3} << ((flags & 7) + 1));
    for (size_t i = 0; i < palette_.size(); ++i)
      if (palette_[i] != i / 3) return;
    palette_ = {};
  }

  // Reads up to the description of the first frame, and the colour that is transparent in it. What belongs to
  // no block is passed over.
  void find_frame() {
    for (uint8_t type = byte(); type != ','; type = byte()) {
      if (type == ';') fail("no frame");
      if (type != '!') continue;
      constexpr uint8_t kControl = 0xf9, kComment = 0xfe;
      const uint8_t label = byte();
      Bytes data = block();
      if (label == kControl && !data.empty()) {
        if (data.size() < 4) fail("its graphic control has " + std::to_string(data.size()) + " bytes");
        if ((data[0] & 1) != 0) transparent_ = data[3];
      }
      if (label == kComment && data.empty()) continue;
      while (!block().empty()) {
      }
    }
  }

  // The next code of `width` bits; codes go on from one block to the next.
  int next_code(int width) {
    for (; buffered_ < width; buffered_ += 8) {
      while (data_.empty()) data_ = block();
      buffer_ |= static_cast<uint32_t>(data_[0]) << buffered_;
      data_ = data_.subspan(1);
    }
    const auto code = static_cast<int>(buffer_ & ((1u << width) - 1));
    buffer_ >>= width;
    buffered_ -= width;
    return code;
  }

  // LZW: codes of growing width, each for a string that is that of an earlier code and one index more.
  void unpack(RowOrder rows) {
    const int bits = byte();
    if (bits > kMostBits) fail("codes of " + std::to_string(bits) + " bits");
    const int clear = 1 << bits, end = clear + 1;
    std::array<uint16_t, kMostCodes> before{};
    std::array<uint8_t, kMostCodes> last{}, text{};
    int next = clear + 2, width = bits + 1, previous = -1;
    uint8_t first = 0;  // index of the string before
    uint8_t* row = indices_.data() + top_ * width_ + left_;
    int64_t x = 0;
    while (true) {
      const int code = next_code(width);
      if (code == end) fail("its data end before its pixels do");
      if (code == clear) {
        next = clear + 2, width = bits + 1, previous = -1;
        continue;
      }
      if (code > (previous < 0 ? clear : next)) fail("a code that stands for nothing");
      size_t at = text.size();  // strings are written from their end
      int rest = code;
      if (previous >= 0 && code == next) {  // the string before, and its first index again
        text[--at] = first;
        rest = previous;
      }
      if (rest >= kMostCodes) fail("a code that stands for nothing");
      for (; rest >= clear; rest = before[static_cast<size_t>(rest)])
        text[--at] = last[static_cast<size_t>(rest)];
      text[--at] = first = static_cast<uint8_t>(rest);
      if (previous >= 0 && next < kMostCodes) {
        before[static_cast<size_t>(next)] = static_cast<uint16_t>(previous);
        last[static_cast<size_t>(next)] = first;
        if (++next == 1 << width && width < kMostBits) ++width;
      }
      previous = code;
      for (; at < text.size(); ++at) {
        row[x] = text[at];
        if (++x < frame_width_) continue;
        if (!rows.next()) return;
        row = indices_.data() + (top_ + rows.row()) * width_ + left_;
        x = 0;
      }
    }
  }

  // Pixels beyond the palette are black; without a palette they are grey.
  Decoded colored() const {
    uint8_t table[256][4];
    for (size_t i = 0; i < 256; ++i) {
      const auto grey = static_cast<uint8_t>(palette_.empty() ? i : 0);
      const bool is_there = 3 * i < palette_.size();
      for (size_t c = 0; c < 3; ++c) table[i][c] = is_there ? palette_[3 * i + c] : grey;
      table[i][3] = static_cast<int>(i) == transparent_ ? 0 : 255;
    }

    Decoded decoded;
    decoded.allocate(width_, height_, transparent_ >= 0 ? 4 : 3);
    uint8_t* out = decoded.pixels.data();
    if (decoded.channels == 4) {
      for (const uint8_t index : indices_) std::memcpy(std::exchange(out, out + 4), table[index], 4);
    } else {
      for (const uint8_t index : indices_) std::memcpy(std::exchange(out, out + 3), table[index], 3);
    }
    return decoded;
  }

  Bytes bytes_, rest_, palette_;
  Bytes data_;           // the rest of a block
  uint32_t buffer_ = 0;  // bits taken from it that are not used yet
  int buffered_ = 0;
  int64_t width_ = 0, height_ = 0, left_ = 0, top_ = 0, frame_width_ = 0, frame_height_ = 0;
  int transparent_ = -1;
  std::vector<uint8_t> indices_;  // into the palette, of the screen's pixels
};

}  // namespace

Decoded decode_gif(Bytes bytes, const DecodeOptions& options) { return GifReader(bytes).read(options); }

}  // namespace pipeline::images
