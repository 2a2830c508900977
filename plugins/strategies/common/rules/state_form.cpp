#include "plugins/strategies/common/rules/state_form.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace pipeline::strategies {
namespace {

constexpr int64_t kHalf = 0x8000;                                // of 16 random bits
constexpr uint32_t kFirst = 0x7feb352du, kSecond = 0x846ca68bu;  // of the noise

int64_t blocks(int64_t length) { return (length + kBlock - 1) / kBlock; }

// The values as (blocks, kBlock), filled up with zeros.
at::Tensor in_blocks(const at::Tensor& values) {
  const int64_t whole = blocks(values.numel()) * kBlock;
  return (whole == values.numel() ? values : at::constant_pad_nd(values, {0, whole - values.numel()}))
      .view({-1, kBlock});
}

// What codes in float32 without sign mean, as a share of the scale.
at::Tensor share(StateForm form, const at::Tensor& codes) {
  if (form == StateForm::kSigned8) return (codes * (1.0f / 127)).square_();
  return (codes * (1.0f / 255)).square_().square_();
}

// The code at or below a share of the scale.
at::Tensor code_below(StateForm form, const at::Tensor& shares) {
  if (form == StateForm::kSigned8) return shares.sqrt().mul_(127).floor_().clamp_max_(126);
  return shares.sqrt().sqrt_().mul_(255).floor_().clamp_max_(254);
}

// The conversions on the CPU, in a pass over what a core's cache holds; the compiler makes vectors of these
// loops, and the bits are those of the operations above and below.
namespace cpu {

// Compiles a function for several processors; the version for the one that it runs on is called.
#if defined(__GNUC__) && !defined(__clang__)
#define PIPELINE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PIPELINE_CLONES
#endif

[[gnu::always_inline]] inline float share(StateForm form, float code) {
  const float part = code * (form == StateForm::kSigned8 ? 1.0f / 127 : 1.0f / 255), square = part * part;
  return form == StateForm::kSigned8 ? square : square * square;
}

template <StateForm form>
[[gnu::always_inline]] inline void widen(const uint8_t* codes, const float* scales, int64_t length,
                                         float* out) {
  for (int64_t begin = 0; begin < length; begin += kBlock) {
    const float scale = scales[begin / kBlock];
    for (int64_t i = begin; i < std::min(begin + kBlock, length); ++i) {
      const float code = form == StateForm::kSigned8 ? static_cast<int8_t>(codes[i]) : codes[i];
      const float size = share(form, std::fabs(code)) * scale;
      out[i] = code < 0 ? -size : size;
    }
  }
}

// noise: null for the nearest.
template <StateForm form>
[[gnu::always_inline]] inline void narrow(const float* values, const int32_t* noise, int64_t length,
                                          uint8_t* codes, float* scales) {
  constexpr bool kSigned = form == StateForm::kSigned8;
  constexpr int32_t kMost = kSigned ? 126 : 254;
  for (int64_t begin = 0; begin < length; begin += kBlock) {
    const int64_t count = std::min(kBlock, length - begin);
    float sizes[kBlock] = {}, scale = 0;
    for (int64_t i = 0; i < count; ++i) {
      sizes[i] = kSigned ? std::fabs(values[begin + i]) : std::max(values[begin + i], 0.0f);
      scale = std::max(scale, sizes[i]);
    }
    scales[begin / kBlock] = scale;
    for (int64_t i = 0; i < count; ++i) {
      const float part = scale > 0 ? sizes[i] / scale : 0;
      const float root = kSigned ? std::sqrt(part) * 127 : std::sqrt(std::sqrt(part)) * 255;
      const int32_t below = std::min(static_cast<int32_t>(root), kMost);
      const float low = share(form, static_cast<float>(below)) * scale,
                  high = share(form, static_cast<float>(below + 1)) * scale;
      const float threshold = noise ? static_cast<float>(noise[begin + i] & 0xffff) * (1.0f / 65536) : 0.5f;
      int32_t code = below + ((sizes[i] - low) / (high - low) > threshold ? 1 : 0);
      if (kSigned)
        code = values[begin + i] < 0 ? -code : code;
      else
        code = sizes[i] > 0 ? std::max(code, 1) : code;
      codes[begin + i] = static_cast<uint8_t>(code);
    }
  }
}

PIPELINE_CLONES void widen_signed(const uint8_t* codes, const float* scales, int64_t length, float* out) {
  widen<StateForm::kSigned8>(codes, scales, length, out);
}
PIPELINE_CLONES void widen_unsigned(const uint8_t* codes, const float* scales, int64_t length, float* out) {
  widen<StateForm::kUnsigned8>(codes, scales, length, out);
}
PIPELINE_CLONES void narrow_signed(const float* values, const int32_t* noise, int64_t length, uint8_t* codes,
                                   float* scales) {
  narrow<StateForm::kSigned8>(values, noise, length, codes, scales);
}
PIPELINE_CLONES void narrow_unsigned(const float* values, const int32_t* noise, int64_t length,
                                     uint8_t* codes, float* scales) {
  narrow<StateForm::kUnsigned8>(values, noise, length, codes, scales);
}
PIPELINE_CLONES void narrow_to_bfloat16(const uint32_t* values, const int32_t* noise, int64_t length,
                                        uint16_t* out) {
  for (int64_t i = 0; i < length; ++i) {
    const uint32_t lower =
        noise ? static_cast<uint32_t>(noise[i]) & 0xffff : 0x7fff + ((values[i] >> 16) & 1);
    out[i] = static_cast<uint16_t>((values[i] + lower) >> 16);
  }
}
PIPELINE_CLONES void fill_noise(uint32_t first, uint32_t key, int64_t length, int32_t* out) {
  for (int64_t i = 0; i < length; ++i) {
    uint32_t x = (first + static_cast<uint32_t>(i)) ^ key;
    x = (x ^ (x >> 16)) * kFirst;
    x = (x ^ (x >> 15)) * kSecond;
    out[i] = static_cast<int32_t>(x ^ (x >> 16));
  }
}

}  // namespace cpu

void narrow_to_bfloat16(const at::Tensor& values, const at::Tensor& noise, const at::Tensor& into) {
  if (values.is_cpu() && into.is_cpu())
    return cpu::narrow_to_bfloat16(static_cast<const uint32_t*>(values.const_data_ptr()),
                                   noise.defined() ? noise.const_data_ptr<int32_t>() : nullptr,
                                   values.numel(), static_cast<uint16_t*>(into.mutable_data_ptr()));
  const at::Tensor bits = values.view(at::kInt);
  const at::Tensor lower =
      noise.defined() ? noise.bitwise_and(0xffff)
                      : at::full_like(bits, kHalf - 1).add_(bits.bitwise_right_shift(16).bitwise_and_(1));
  into.copy_(bits.add(lower).bitwise_and_(~int64_t{0xffff}).view(at::kFloat));
}

void narrow_to_blocks(StateForm form, const at::Tensor& values, const at::Tensor& noise, const Kept& into) {
  if (values.is_cpu() && into.values.is_cpu()) {
    const auto narrow = form == StateForm::kSigned8 ? cpu::narrow_signed : cpu::narrow_unsigned;
    return narrow(values.const_data_ptr<float>(), noise.defined() ? noise.const_data_ptr<int32_t>() : nullptr,
                  values.numel(), into.values.mutable_data_ptr<uint8_t>(),
                  into.scales.mutable_data_ptr<float>());
  }
  const at::Tensor sizes = in_blocks(form == StateForm::kSigned8 ? values.abs() : values.clamp_min(0));
  const at::Tensor scales = sizes.amax(1, /*keepdim=*/true);
  const at::Tensor below = code_below(form, at::where(scales > 0, sizes / scales, 0));
  const at::Tensor low = share(form, below).mul_(scales), high = share(form, below + 1).mul_(scales);
  // low and high are what these codes mean, to the bit: a value that is one of them is never rounded.
  const at::Tensor part = (sizes - low).div_(high - low);
  const at::Tensor threshold =
      noise.defined() ? in_blocks(noise.bitwise_and(0xffff).to(at::kFloat).mul_(1.0f / 65536)) : at::Tensor();
  at::Tensor codes = below.add(noise.defined() ? part > threshold : part > 0.5f).view({-1});
  codes = codes.narrow(0, 0, values.numel());
  // A square that became 0 would leave its moment, which may have been rounded up, without a divisor.
  if (form == StateForm::kUnsigned8) codes = at::where(values > 0, codes.clamp_min(1), codes);
  if (form == StateForm::kSigned8) codes = at::where(values < 0, -codes, codes).to(at::kChar).view(at::kByte);
  into.values.copy_(codes);
  into.scales.copy_(scales.view({-1}));
}

}  // namespace

at::ScalarType dtype_of(StateForm form) {
  return form == StateForm::kFloat32 ? at::kFloat : form == StateForm::kBFloat16 ? at::kBFloat16 : at::kByte;
}

Kept make_state(StateForm form, int64_t length, const at::TensorOptions& options) {
  Kept kept{at::zeros({length}, options.dtype(dtype_of(form))), {}};
  if (has_scales(form)) kept.scales = at::zeros({blocks(length)}, options.dtype(at::kFloat));
  return kept;
}

Kept narrow_state(const Kept& kept, int64_t begin, int64_t length) {
  return {kept.values.narrow(0, begin, length),
          kept.scales.defined() ? kept.scales.narrow(0, begin / kBlock, blocks(length)) : at::Tensor()};
}

at::Tensor widened(StateForm form, const Kept& kept) {
  if (!has_scales(form)) return kept.values.to(at::kFloat);
  if (kept.values.is_cpu()) {
    at::Tensor values = at::empty(kept.values.sizes(), at::kFloat);
    const auto widen = form == StateForm::kSigned8 ? cpu::widen_signed : cpu::widen_unsigned;
    widen(kept.values.const_data_ptr<uint8_t>(), kept.scales.const_data_ptr<float>(), values.numel(),
          values.mutable_data_ptr<float>());
    return values;
  }
  const bool has_sign = form == StateForm::kSigned8;
  const at::Tensor codes = (has_sign ? kept.values.view(at::kChar) : kept.values).to(at::kFloat);
  at::Tensor values = in_blocks(share(form, codes.abs())).mul(kept.scales.unsqueeze(1)).view({-1});
  values = values.narrow(0, 0, codes.numel());
  return has_sign ? at::where(codes < 0, -values, values) : values;
}

void narrow_to(StateForm form, const at::Tensor& values, const at::Tensor& noise, const Kept& into) {
  if (has_scales(form)) return narrow_to_blocks(form, values, noise, into);
  if (form == StateForm::kBFloat16) return narrow_to_bfloat16(values, noise, into.values);
  into.values.copy_(values);
}

// Two rounds of multiplying and folding, as lowbias32 (Wellons, "Prospecting for hash functions", 2018).
at::Tensor noise(uint32_t unit, int64_t first, int64_t length, const at::Tensor& step) {
  constexpr uint32_t kOfStep = 0x9e3779b1u, kOfUnit = 0x85ebca6bu;
  if (step.is_cpu()) {
    at::Tensor all = at::empty({length}, at::kInt);
    const uint32_t key =
        static_cast<uint32_t>(static_cast<int32_t>(step.item<float>())) * kOfStep + unit * kOfUnit;
    cpu::fill_noise(static_cast<uint32_t>(first), key, length, all.mutable_data_ptr<int32_t>());
    return all;
  }
  const auto as_signed = [](uint32_t value) { return static_cast<int64_t>(static_cast<int32_t>(value)); };
  const auto fold = [](at::Tensor& x, int64_t shift) {
    x.bitwise_xor_(x.bitwise_right_shift(shift).bitwise_and_((int64_t{1} << (32 - shift)) - 1));
  };
  at::Tensor x = at::arange(first, first + length, step.options().dtype(at::kLong)).to(at::kInt);
  x.bitwise_xor_(step.to(at::kInt).mul_(as_signed(kOfStep)).add_(as_signed(unit * kOfUnit)));
  fold(x, 16);
  x.mul_(as_signed(kFirst));
  fold(x, 15);
  x.mul_(as_signed(kSecond));
  fold(x, 16);
  return x;
}

}  // namespace pipeline::strategies
