#pragma once

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>

#include <nlohmann/json.hpp>
#include <test_paths.hpp>

#include "plugins/data/images/image.hpp"
#include "tests/support/test_files.hpp"

// Files of every format and mode, and what Pillow and transformers make of them and of pictures of a formula;
// see tests/parity/record_images.py.
namespace pipeline::tests {

inline const std::string kImagesFolder = PIPELINE_SOURCE_DIR "/tests/data/images/";

inline nlohmann::json recorded(const std::string& name) {
  return nlohmann::json::parse(read_all(kImagesFolder + "fixtures/" + name));
}

inline std::string picture(const std::string& name) { return read_all(kImagesFolder + "pictures/" + name); }

inline images::Image decode(const std::string& bytes, const images::DecodeOptions& options = {}) {
  return images::decode_image(std::as_bytes(std::span(bytes)), options);
}

inline std::vector<uint8_t> from_hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// A picture by the formula of tests/parity/record_images.py.
inline images::Image patterned(int64_t width, int64_t height) {
  images::Image image{width, height, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        image.pixels.push_back(static_cast<uint8_t>(x * 37 + y * 101 + c * 59 + x * y % 7 * 31));
      }
    }
  }
  return image;
}

inline int largest_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a.size() != b.size()) return 256;
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace pipeline::tests
