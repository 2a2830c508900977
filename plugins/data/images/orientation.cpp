#include "plugins/data/images/formats.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace pipeline::images {
namespace {

// EXIF data are a TIFF file: numbers in the byte order that its first bytes state, read within its bounds.
class Tiff {
 public:
  explicit Tiff(Bytes bytes) : bytes_(bytes), big_endian_(!bytes.empty() && bytes[0] == 'M') {}

  bool holds(uint64_t at, uint64_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }
  uint32_t number(uint64_t at, int width) const {
    uint32_t value = 0;
    for (int i = 0; i < width; ++i) {
      value =
          value << 8 | bytes_[static_cast<size_t>(at) + static_cast<size_t>(big_endian_ ? i : width - 1 - i)];
    }
    return value;
  }

 private:
  Bytes bytes_;
  bool big_endian_;
};

constexpr uint32_t kOrientationTag = 0x0112, kShort = 3, kLong = 4;
constexpr uint64_t kEntryBytes = 12;  // tag, type, count, value

int valid(uint32_t value) { return value >= 1 && value <= 8 ? static_cast<int>(value) : 1; }

// None where the data do not state one, with `is_damaged` set if they may have.
std::optional<int> exif_orientation(Bytes exif, bool& is_damaged) {
  using std::string_view;
  const auto starts_with = [&exif](string_view text) {
    return exif.size() >= text.size() && std::equal(text.begin(), text.end(), exif.begin());
  };
  while (starts_with({"Exif\0\0", 6})) exif = exif.subspan(6);
  is_damaged = !exif.empty();
  if (!starts_with({"II*\0", 4}) && !starts_with({"MM\0*", 4})) return std::nullopt;
  const Tiff tiff(exif);
  if (!tiff.holds(4, 4)) return std::nullopt;
  const uint64_t directory = tiff.number(4, 4);
  if (!tiff.holds(directory, 2)) return std::nullopt;
  const uint64_t entries = tiff.number(directory, 2);
  uint64_t at = directory + 2;
  is_damaged = !tiff.holds(at, entries * kEntryBytes);
  for (uint64_t i = 0; i < entries && tiff.holds(at, kEntryBytes); ++i, at += kEntryBytes) {
    if (tiff.number(at, 2) != kOrientationTag) continue;
    const uint32_t type = tiff.number(at + 2, 2), count = tiff.number(at + 4, 4);
    is_damaged = (type != kShort && type != kLong) || count != 1;
    if (is_damaged) return std::nullopt;
    return valid(tiff.number(at + 8, type == kShort ? 2 : 4));
  }
  return std::nullopt;
}

// An attribute, tiff:Orientation="6", or an element, <tiff:Orientation>6.
int xmp_orientation(Bytes xmp) {
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = 0; (at = text.find(kName, at)) != text.npos;) {
    std::string_view rest = text.substr(at += kName.size());
    for (const std::string_view before : {"=\"", ">"}) {
      if (!rest.starts_with(before)) continue;
      rest.remove_prefix(before.size());
      if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9')
        return valid(static_cast<uint32_t>(rest.front() - '0'));
      break;
    }
  }
  return 1;
}

}  // namespace

Orientation stated_orientation(Bytes exif, Bytes xmp) {
  bool is_damaged = false;
  if (const auto stated = exif_orientation(exif, is_damaged)) return {*stated};
  return {xmp_orientation(xmp), is_damaged};
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool swapped = orientation >= 5;
  const int64_t w = image.width, h = image.height;
  int64_t step = from_right ? -1 : 1, row_step = from_bottom ? -w : w;  // in pixels of the source
  int64_t row = (from_right ? w - 1 : 0) + (from_bottom ? w * (h - 1) : 0);
  if (swapped) std::swap(step, row_step);

  Image result{swapped ? h : w, swapped ? w : h, std::vector<uint8_t>(image.pixels.size())};
  uint8_t* out = result.pixels.data();
  for (int64_t y = 0; y < result.height; ++y, row += row_step) {
    const uint8_t* in = image.pixels.data() + 3 * row;
    for (int64_t x = 0; x < result.width; ++x, in += 3 * step, out += 3) std::copy_n(in, 3, out);
  }
  return result;
}

}  // namespace pipeline::images
