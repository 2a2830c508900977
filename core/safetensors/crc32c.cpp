#include "core/safetensors/crc32c.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "core/safetensors/header.hpp"

namespace pipeline::safetensors {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;

constexpr auto make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();  // the checksum of each byte

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(uint32_t crc, std::span<const std::byte> data) {
  uint64_t state = ~crc;
  const std::byte* p = data.data();
  size_t left = data.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    state = __builtin_ia32_crc32di(state, word);
  }
  auto state32 = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++p) state32 = __builtin_ia32_crc32qi(state32, std::to_integer<uint8_t>(*p));
  return ~state32;
}
#endif

}  // namespace

uint32_t crc32c_portable(uint32_t crc, std::span<const std::byte> data) {
  uint32_t state = ~crc;
  for (const std::byte byte : data)
    state = (state >> 8) ^ kTable[(state ^ std::to_integer<uint32_t>(byte)) & 0xff];
  return ~state;
}

uint32_t crc32c(uint32_t crc, std::span<const std::byte> data) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (has_sse42) return crc32c_sse42(crc, data);
#endif
  return crc32c_portable(crc, data);
}

uint32_t checksum_file(const std::string& path) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw system_error(path + ": cannot be opened");
  const auto piece = std::make_unique<std::byte[]>(kPieceBytes);
  uint32_t sum = 0;
  uint64_t bytes = 0;
  while (true) {
    const ssize_t got = ::read(file.fd(), piece.get(), kPieceBytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(path + ": cannot be read after " + std::to_string(bytes) + " bytes");
    if (got == 0) return sum;
    sum = crc32c(sum, {piece.get(), static_cast<size_t>(got)});
    bytes += static_cast<uint64_t>(got);
  }
}

}  // namespace pipeline::safetensors
