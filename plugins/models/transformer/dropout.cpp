#include "dropout.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_dropout_backward.h>

#include <pipeline/torch/random.hpp>

#include "fast_path.hpp"
#include "gemm.hpp"
#include "kernels/kernels.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {

uint32_t Dropout::threshold() const { return static_cast<uint32_t>(p * 4294967296.0); }

uint64_t dropout_key(uint64_t seed, uint64_t site) {
  return dropout_row_key(seed ^ 0x2545f4914f6cdd1dULL, site);
}

namespace {

// A logical shift to the right of integers of `width` bits; LibTorch's is of signed ones.
at::Tensor shifted(const at::Tensor& x, int64_t bits, int64_t width) {
  return x.bitwise_right_shift(bits).bitwise_and_((int64_t{1} << (width - bits)) - 1);
}

int64_t as_signed(uint64_t x) { return static_cast<int64_t>(x); }
int64_t as_signed(uint32_t x) { return static_cast<int32_t>(x); }

// dropout_row_key() of `rows` rows from `first` on: (rows, 1) int64.
at::Tensor row_keys(uint64_t key, int64_t first, int64_t rows, at::Device device) {
  const auto numbers = at::TensorOptions(device).dtype(at::kLong);
  at::Tensor z = at::arange(first + 1, first + rows + 1, numbers).unsqueeze(1);
  z.mul_(as_signed(uint64_t{0x9e3779b97f4a7c15})).add_(as_signed(key));
  z.bitwise_xor_(shifted(z, 30, 64)).mul_(as_signed(uint64_t{0xbf58476d1ce4e5b9}));
  z.bitwise_xor_(shifted(z, 27, 64)).mul_(as_signed(uint64_t{0x94d049bb133111eb}));
  return z.bitwise_xor_(shifted(z, 31, 64));
}

}  // namespace

// The kernels' hash of (row key, column), made on the device itself.
at::Tensor dropout_mask(const Dropout& dropout, int64_t first_row, int64_t rows, int64_t columns,
                        at::TensorOptions options) {
  const at::Tensor key = row_keys(dropout.key, first_row, rows, options.device());
  at::Tensor h = at::arange(columns, key.options().dtype(at::kInt)) * as_signed(uint32_t{0x9e3779b1});
  h = h + key.to(at::kInt);
  h.bitwise_xor_(shifted(h, 16, 32)).mul_(as_signed(uint32_t{0x7feb352d}));
  h.bitwise_xor_(shifted(h, 15, 32)).bitwise_xor_(shifted(key, 32, 64).to(at::kInt));
  h.mul_(as_signed(uint32_t{0x846ca68b}));
  h.bitwise_xor_(shifted(h, 16, 32));
  const uint32_t sign = 0x80000000;  // comparisons are of signed integers
  const at::Tensor kept = h.bitwise_xor_(as_signed(sign)).ge(as_signed(dropout.threshold() ^ sign));
  return kept.to(options.dtype()).mul_(dropout.scale());
}

bool draws_on_device(const at::Tensor& x) { return x.is_cuda() && wide(x.scalar_type()) != x.scalar_type(); }

at::Tensor dropped_on_device(const at::Tensor& x, const Dropout& dropout) {
  seed_generator(at::globalContext().defaultGenerator(x.device()), dropout.key);
  // Drawn in a tensor of its own, so that the order of its elements is the same for x and for its gradient.
  const at::Tensor kept = at::empty(x.sizes(), x.options().dtype(at::kBool)).bernoulli_(1 - dropout.p);
  return at::native_dropout_backward(x, kept, 1 / (1 - dropout.p));  // x * kept * scale, in one kernel
}

at::Tensor apply_dropout(const at::Tensor& x, const Dropout& dropout, const at::Tensor& residual,
                         bool in_place) {
  if (!fast_path(x)) {
    const at::ScalarType type = x.scalar_type();
    const auto by_mask = [&] {  // the scale is no number of a narrow dtype
      return (x.to(wide(type)) *
              dropout_mask(dropout, 0, x.size(0), x.size(1), x.options().dtype(wide(type))))
          .to(type);
    };
    const at::Tensor y = draws_on_device(x) ? dropped_on_device(x, dropout) : by_mask();
    return residual.defined() ? y.add(residual) : y;
  }
  at::Tensor y = in_place ? x : at::empty_like(x);
  const int64_t columns = x.size(1);
  const float* const from = x.const_data_ptr<float>();
  const float* const addend = residual.defined() ? residual.const_data_ptr<float>() : nullptr;
  float* const to = y.mutable_data_ptr<float>();
  parallel::rows(x.size(0), 64, 8 * columns, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = n * columns;
      kernels().dropout(
          from + at, addend ? addend + at : nullptr, to + at, columns,
          {dropout_row_key(dropout.key, static_cast<uint64_t>(n)), dropout.threshold(), dropout.scale()});
    }
  });
  return y;
}

namespace {

class Dropped : public torch::autograd::Function<Dropped> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Dropout& dropout) {
    keep(ctx, dropout);
    return apply_dropout(x, dropout);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {apply_dropout(grads[0].contiguous(), kept<Dropout>(ctx)), Variable()};
  }
};

}  // namespace

at::Tensor dropped(const at::Tensor& x, const Dropout& dropout) {
  return draws_on_device(x) ? dropped_on_device(x, dropout) : Dropped::apply(x, dropout);
}

}  // namespace pipeline::transformer
