#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace pipeline::safetensors {

// CRC-32C (Castagnoli, as in iSCSI and ext4: reflected polynomial 0x82f63b78, initial value and final xor
// ~0). Incremental: crc32c(crc32c(0, a), b) is the checksum of a followed by b. Empty data has checksum 0,
// "123456789" has 0xe3069283. Uses the SSE4.2 instruction if the CPU has it, otherwise a table.
uint32_t crc32c(uint32_t crc, std::span<const std::byte> data);

// Always uses the table; for the test that both agree.
uint32_t crc32c_portable(uint32_t crc, std::span<const std::byte> data);

// Works for any file; reads it in pieces. Throws SafetensorsError if it cannot be read.
uint32_t checksum_file(const std::string& path);

}  // namespace pipeline::safetensors
