#pragma once

// The header of a safetensors file: a little-endian u64 length N, then N bytes of JSON, then the data. The
// JSON maps each tensor name to {"dtype", "shape", "data_offsets": [begin, end)}, offsets counted from the
// end of the header, and "__metadata__" to an object of strings.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/safetensors/dtype.hpp"

namespace pipeline::safetensors {

using Shape = std::vector<int64_t>;
using Metadata = std::map<std::string, std::string>;

struct TensorInfo {
  std::string name;
  Dtype dtype;
  Shape shape;
  uint64_t begin;  // bytes from the start of the data
  uint64_t end;
};

struct Header {
  std::vector<TensorInfo> tensors;  // in the order of their data
  Metadata metadata;
  uint64_t data_start;  // bytes from the start of the file
};

// The reference implementation refuses longer headers, so we do not write them.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Parses and checks a whole file image (only its header is accessed). `file` names it in errors. Throws
// Error for a length, JSON, name, dtype, shape or offset that the format does not allow: the tensors' data
// must be contiguous, without gap or overlap, and end where the file ends.
Header parse_header(std::span<const std::byte> image, const std::string& file);

// Returns the first bytes of a file with these tensors, padded with spaces to a multiple of 8 bytes.
std::string format_header(std::span<const TensorInfo> tensors, const Metadata& metadata,
                          const std::string& file);

// Size of a tensor in bytes. Throws Error if a dimension is negative, or the size overflows or is not a
// whole number of bytes.
uint64_t byte_size(Dtype dtype, const Shape& shape, const std::string& context);

std::string shape_string(const Shape& shape);  // "[2, 3]"

}  // namespace pipeline::safetensors
