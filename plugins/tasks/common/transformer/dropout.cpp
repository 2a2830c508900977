#include "dropout.hpp"

#include <ATen/ATen.h>

#include <vector>

#include "kernels/kernels.hpp"
#include "packed_batch.hpp"
#include "parallel.hpp"

namespace pipeline::transformer {

uint32_t Dropout::threshold() const { return static_cast<uint32_t>(p * 4294967296.0); }

uint64_t dropout_key(uint64_t seed, uint64_t site) {
  return dropout_row_key(seed ^ 0x2545f4914f6cdd1dULL, site);
}

at::Tensor dropout_mask(const Dropout& dropout, int64_t first_row, int64_t rows, int64_t columns,
                        at::TensorOptions options) {
  // The kernels' hash of (row key, column), with 32-bit arithmetic inside 64-bit integers.
  const int64_t low = 0xffffffff;
  std::vector<int64_t> keys;
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    keys.push_back(static_cast<int64_t>(dropout_row_key(dropout.key, static_cast<uint64_t>(row))));
  }
  const at::Tensor key = to_device(keys, options.device()).unsqueeze(1);
  at::Tensor h = at::arange(columns, key.options()) * 0x9e3779b1 + key.bitwise_and(low);
  h = h.bitwise_and(low);
  h = h.bitwise_xor(h.bitwise_right_shift(16)).mul_(0x7feb352d).bitwise_and_(low);
  h = h.bitwise_xor(h.bitwise_right_shift(15)).bitwise_xor_(key.bitwise_right_shift(32).bitwise_and_(low));
  h = h.mul_(0x846ca68b).bitwise_and_(low);
  h = h.bitwise_xor(h.bitwise_right_shift(16));
  return h.ge(static_cast<int64_t>(dropout.threshold())).to(options.dtype()).mul_(dropout.scale());
}

at::Tensor apply_dropout(const at::Tensor& x, const Dropout& dropout, const at::Tensor& residual,
                         bool in_place) {
  if (!fast_path(x)) {
    at::Tensor y = x * dropout_mask(dropout, 0, x.size(0), x.size(1), x.options());
    return residual.defined() ? y.add(residual) : y;
  }
  at::Tensor y = in_place ? x : at::empty_like(x);
  const int64_t columns = x.size(1);
  const float* const from = x.const_data_ptr<float>();
  const float* const addend = residual.defined() ? residual.const_data_ptr<float>() : nullptr;
  float* const to = y.mutable_data_ptr<float>();
  parallel_rows(x.size(0), 64, 8 * columns, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = n * columns;
      kernels().dropout(
          from + at, addend ? addend + at : nullptr, to + at, columns,
          {dropout_row_key(dropout.key, static_cast<uint64_t>(n)), dropout.threshold(), dropout.scale()});
    }
  });
  return y;
}

}  // namespace pipeline::transformer
