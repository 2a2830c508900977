// The smallest PNG files, for tests that need pictures.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pipeline::tests {

// `pixels`: RGB, row by row.
inline void write_png(const std::filesystem::path& path, int width, int height,
                      const std::vector<uint8_t>& pixels) {
  const auto number = [](uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  const auto chunk = [&](const std::string& type, const std::string& data) {
    const std::string body = type + data;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    return number(static_cast<uint32_t>(data.size())) + body + number(static_cast<uint32_t>(sum));
  };
  std::string rows;
  for (int y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + size_t{3} * static_cast<size_t>(y * width),
                size_t{3} * static_cast<size_t>(width));
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
           static_cast<uLong>(rows.size()));
  packed.resize(size);
  std::ofstream(path, std::ios::binary)
      << std::string("\x89PNG\r\n\x1a\n", 8)
      << chunk("IHDR", number(static_cast<uint32_t>(width)) + number(static_cast<uint32_t>(height)) +
                           std::string("\x08\x02\0\0\0", 5))
      << chunk("IDAT", packed) << chunk("IEND", "");
}

}  // namespace pipeline::tests
