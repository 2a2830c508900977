#pragma once

// The header of a safetensors file: a little-endian u64 length N, then N bytes of JSON, then the data. The
// JSON maps each tensor name to {"dtype", "shape", "data_offsets": [begin, end)}, offsets counted from the
// end of the header, and "__metadata__" to an object of strings.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::safetensors {

// Every failure of this library: which file, which tensor, the value seen, the value expected.
class SafetensorsError : public std::runtime_error {
 public:
  explicit SafetensorsError(const std::string& message, int os_error = 0)
      : std::runtime_error(message), os_error_(os_error) {}

  // errno of the system call that failed (ENOSPC: disk full); 0 if the content is at fault.
  int os_error() const { return os_error_; }

 private:
  int os_error_;
};

// The SafetensorsError "<what>: <text of errno>", which keeps errno. Call it before anything can change
// errno.
SafetensorsError system_error(const std::string& what);

// Element types that the format knows. Sub-byte types are packed, least significant bits first.
enum class Dtype : uint8_t {
  kBool,
  kU8,
  kI8,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,  //
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view dtype_name(Dtype dtype);  // as written in the header: "F32", "BF16", "BOOL"
int dtype_bits(Dtype dtype);               // bits per element
std::optional<Dtype> dtype_from_name(std::string_view name);

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
// SafetensorsError for a length, JSON, name, dtype, shape or offset that the format does not allow: the
// tensors' data must be contiguous, without gap or overlap, and end where the file ends.
Header parse_header(std::span<const std::byte> image, const std::string& file);

// Puts tensors in the order of their data: by decreasing element size, so that each is aligned, then as
// given. Sets their offsets and returns the size of all. Throws SafetensorsError for two of one name.
uint64_t lay_out(std::vector<TensorInfo>& tensors, const std::string& file);

// Returns the first bytes of a file with these tensors, padded with spaces to a multiple of 8 bytes.
std::string format_header(std::span<const TensorInfo> tensors, const Metadata& metadata,
                          const std::string& file);

// Size of a tensor in bytes. Throws SafetensorsError if a dimension is negative, or the size overflows or is
// not a whole number of bytes.
uint64_t byte_size(Dtype dtype, const Shape& shape, const std::string& context);

std::string shape_string(const Shape& shape);  // "[2, 3]"

}  // namespace pipeline::safetensors
