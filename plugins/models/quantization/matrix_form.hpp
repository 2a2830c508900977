// Matrices kept in 8 and 4 bits, as bitsandbytes keeps those of PyTorch's layers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pipeline::quantization {

// INT8: codes of 8 bits, times a scale of their row (Dettmers et al., arXiv 2208.07339, without outliers).
// NF4: codes of 4 bits, the first of two in a byte's upper half, which stand for 16 quantiles of the normal
// distribution, times the largest size among 64 values that follow one another; of these sizes 8 bits are kept,
// a value of the dynamic map times the largest of 256 sizes less their mean (arXiv 2305.14314).
enum class Form { kInt8, kNf4 };

inline constexpr int64_t kBlock = 64, kBlocksAGroup = 256;

// The 16 levels, ascending; and the 256 values of the dynamic map (arXiv 1511.04561), ascending.
extern const std::array<float, 16> kNf4Levels;
const std::array<float, 256>& dynamic_map();

// A matrix (rows, columns) in a form, in memory that somebody else owns. Each part begins at a multiple of 64
// bytes. Rows are the outputs of a layer; NF4 needs columns that are a multiple of 64.
class Matrix {
 public:
  static bool takes(Form form, int64_t columns) { return form == Form::kInt8 || columns % kBlock == 0; }
  static uint64_t bytes(Form form, int64_t rows, int64_t columns);

  Matrix(Form form, int64_t rows, int64_t columns, const std::byte* data);

  Form form() const { return form_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  const uint8_t* codes() const { return codes_; }
  const uint8_t* sizes() const { return sizes_; }  // NF4: of block b, rows x columns / 64 of them
  const float* scales() const { return scales_; }  // INT8: of each row; NF4: of 256 sizes each
  float offset() const { return *offset_; }        // NF4

  // values: (rows, columns), contiguous; into memory of bytes(), which is all written.
  static void encode(Form form, int64_t rows, int64_t columns, const float* values, std::byte* out);
  // Columns begin .. begin + out.size() - 1 of a row; for NF4 `begin` and the size are multiples of 64.
  void decode(int64_t row, int64_t begin, std::span<float> out) const;
  float block_size(int64_t block) const;  // NF4: the largest size among its values

 private:
  Form form_;
  int64_t rows_, columns_;
  const uint8_t *codes_, *sizes_ = nullptr;
  const float *scales_, *offset_ = nullptr;
};

}  // namespace pipeline::quantization
