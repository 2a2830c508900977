// Matrices kept in 8 and 4 bits, as bitsandbytes keeps those of PyTorch's layers. No LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace pipeline::quantization {

// INT8: codes of 8 bits, times a scale of their row (Dettmers et al., arXiv 2208.07339, without outliers).
// NF4: codes of 4 bits, the first of two in a byte's upper half, which stand for 16 quantiles of the normal
// distribution, times the largest size among 64 values that follow one another; of these sizes 8 bits are
// kept: a value of the dynamic map, times the largest of 256 sizes less their mean, plus the mean (arXiv
// 2305.14314).
enum class Form { kInt8, kNf4 };

inline constexpr int64_t kBlock = 64, kBlocksAGroup = 256;

// The 16 levels, ascending; and the 256 values of the dynamic map (arXiv 1511.04561), ascending.
extern const float kNf4Levels[16];
const std::array<float, 256>& dynamic_map();

// How a row of a matrix, the weights of one output of a layer, lies in memory. It has all that its values
// need, so any rows of a matrix are a matrix. The codes come first; then INT8's scale; or NF4's mean of
// sizes, the number of the row's first block in its group of 256, the scales of the groups that the row is
// in, and a byte for the size of each block. Columns are a multiple of 64; so many bytes belong to one number
// of columns.
class Row {
 public:
  static bool takes(int64_t columns) { return columns > 0 && columns % kBlock == 0; }
  static int64_t bytes(Form form, int64_t columns);  // a multiple of 32
  static int64_t columns(Form form, int64_t bytes);  // -1: no row has so many

  // Not inline, as files that are compiled for one kind of processor call it.
  Row(Form form, int64_t columns, const uint8_t* data);

  float scale() const;  // INT8
  // NF4: the largest sizes among the values of `count` blocks from `first` on.
  void sizes(int64_t first, int64_t count, float* out) const;
  // Values begin .. begin + out.size() - 1, both multiples of 64.
  void decode(int64_t begin, std::span<float> out) const;

 private:
  Form form_;
  int64_t columns_;
  const uint8_t* data_;
};

// Has body(begin, end) done for all of 0 .. count - 1, in any pieces and on any threads.
using Divide = std::function<void(int64_t count, const std::function<void(int64_t, int64_t)>& body)>;

// Writes a matrix of PyTorch's, values (rows, columns), as `rows` rows, one after the other: the same bytes,
// however the work is divided.
void encode(
    Form form, int64_t rows, int64_t columns, const float* values, std::byte* out,
    const Divide& divide = [](int64_t count, const auto& body) { body(0, count); });
// The same for codes that somebody else has made. INT8: scales of rows; NF4: `sizes` of blocks by the dynamic
// map, with the scales of 256 of them each and their mean.
struct Codes {
  const uint8_t* codes;
  const float* scales;
  const uint8_t* sizes = nullptr;
  float mean = 0;
};
void arrange(Form form, int64_t rows, int64_t columns, const Codes& codes, std::byte* out);

}  // namespace pipeline::quantization
