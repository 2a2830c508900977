#include "plugins/strategies/common/rules/state_form.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace pipeline::strategies {
namespace {

constexpr int64_t kHalf = 0x8000;  // of 16 random bits

int64_t blocks(int64_t length) { return (length + kBlock - 1) / kBlock; }

// (blocks, kBlock), filled up with zeros.
at::Tensor in_blocks(const at::Tensor& values) {
  const int64_t whole = blocks(values.numel()) * kBlock;
  return (whole == values.numel() ? values : at::constant_pad_nd(values, {0, whole - values.numel()}))
      .view({-1, kBlock});
}

// Of codes in float32 without sign, as a share of the scale.
at::Tensor share(StateForm form, const at::Tensor& codes) {
  if (form == StateForm::kSigned8) return (codes * (1.0f / 127)).square_();
  return (codes * (1.0f / 255)).square_().square_();
}

// The code at or below a share of the scale.
at::Tensor code_below(StateForm form, const at::Tensor& shares) {
  if (form == StateForm::kSigned8) return shares.sqrt().mul_(127).floor_().clamp_max_(126);
  return shares.sqrt().sqrt_().mul_(255).floor_().clamp_max_(254);
}

void narrow_to_bfloat16(const at::Tensor& values, const at::Tensor& noise, const at::Tensor& into) {
  const at::Tensor bits = values.view(at::kInt);
  const at::Tensor lower =
      noise.defined() ? noise.bitwise_and(0xffff)
                      : at::full_like(bits, kHalf - 1).add_(bits.bitwise_right_shift(16).bitwise_and_(1));
  into.copy_(bits.add(lower).bitwise_and_(~int64_t{0xffff}).view(at::kFloat));
}

void narrow_to_blocks(StateForm form, const at::Tensor& values, const at::Tensor& noise, const Kept& into) {
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
  const auto as_signed = [](uint32_t value) { return static_cast<int64_t>(static_cast<int32_t>(value)); };
  const auto fold = [](at::Tensor& x, int64_t shift) {
    x.bitwise_xor_(x.bitwise_right_shift(shift).bitwise_and_((int64_t{1} << (32 - shift)) - 1));
  };
  at::Tensor x = at::arange(first, first + length, step.options().dtype(at::kLong)).to(at::kInt);
  x.bitwise_xor_(step.to(at::kInt).mul_(as_signed(0x9e3779b1u)).add_(as_signed(unit * 0x85ebca6bu)));
  fold(x, 16);
  x.mul_(as_signed(0x7feb352du));
  fold(x, 15);
  x.mul_(as_signed(0x846ca68bu));
  fold(x, 16);
  return x;
}

}  // namespace pipeline::strategies
