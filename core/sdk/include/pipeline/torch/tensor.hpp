// Converts between pl_tensor and at::Tensor. Neither direction copies elements.
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/tensor.hpp>
#include <pipeline/torch/errors.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <optional>
#include <span>

PIPELINE_SDK_BEGIN

inline at::ScalarType to_torch(pl_dtype dtype) {
  struct Pair {
    pl_dtype dtype;
    at::ScalarType scalar;
  };
  static constexpr Pair kPairs[] = {
      {kFloat32, at::kFloat}, {kFloat64, at::kDouble}, {kFloat16, at::kHalf}, {kBFloat16, at::kBFloat16},
      {kInt64, at::kLong},    {kInt32, at::kInt},      {kUInt8, at::kByte},   {kBool, at::kBool},
  };
  for (const Pair& pair : kPairs) {
    if (same(pair.dtype, dtype)) return pair.scalar;
  }
  fail_with(PL_ERROR_UNSUPPORTED, "dtype with code ", static_cast<unsigned>(dtype.code), " and ",
            static_cast<unsigned>(dtype.bits), " bits is not known");
}

inline pl_dtype to_pl(at::ScalarType scalar) {
  for (const pl_dtype dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool}) {
    if (to_torch(dtype) == scalar) return dtype;
  }
  fail_with(PL_ERROR_UNSUPPORTED, "tensors of ", at::toString(scalar), " cannot cross the ABI");
}

inline c10::Device to_torch(pl_device device) {
  if (device.type == PL_DEVICE_CPU || device.type == PL_DEVICE_CUDA_HOST) return c10::Device(c10::kCPU);
  if (device.type != PL_DEVICE_CUDA) fail_with(PL_ERROR_UNSUPPORTED, name_of(device), " is not known");
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.id));
}

inline pl_device to_pl(c10::Device device) {
  if (device.is_cpu()) return kCpu;
  if (device.is_cuda()) return {PL_DEVICE_CUDA, device.index()};
  fail_with(PL_ERROR_UNSUPPORTED, "tensors on ", device.str(), " cannot cross the ABI");
}

// Returns a tensor over the view's memory, which must outlive the tensor.
inline at::Tensor to_torch(const pl_tensor& view) {
  const c10::Device device = to_torch(view.device);
  const auto rank = static_cast<size_t>(view.ndim);
  at::OptionalIntArrayRef strides;
  if (view.strides != nullptr) strides = at::IntArrayRef(view.strides, rank);
  return at::for_blob(data_of(view), at::IntArrayRef(view.shape, rank))
      .strides(strides)
      .options(at::TensorOptions().dtype(to_torch(view.dtype)).device(device))
      .target_device(device)
      .make_tensor();
}

// Returns nullopt for null.
inline std::optional<at::Tensor> to_torch(const pl_tensor* view) {
  return view == nullptr ? std::nullopt : std::optional(to_torch(*view));
}

// Returns `count` elements of a buffer, from `begin` on. Does not ask the driver where they are: an empty
// buffer may have no address.
inline at::Tensor to_torch(const pl_buffer& buffer, uint64_t begin, uint64_t count) {
  const c10::Device device = to_torch(buffer.device);
  return at::for_blob(static_cast<char*>(buffer.data) + begin * (buffer.dtype.bits / 8u),
                      {static_cast<int64_t>(count)})
      .options(at::TensorOptions().dtype(to_torch(buffer.dtype)).device(device))
      .target_device(device)
      .make_tensor();
}

// Returns a view that borrows the tensor's memory, shape and strides.
inline pl_tensor to_pl(const at::Tensor& tensor) {
  pl_tensor view{};
  view.data = tensor.data_ptr();
  view.device = to_pl(tensor.device());
  view.ndim = static_cast<int32_t>(tensor.dim());
  view.dtype = to_pl(tensor.scalar_type());
  view.shape = const_cast<int64_t*>(tensor.sizes().data());
  if (!tensor.is_contiguous()) view.strides = const_cast<int64_t*>(tensor.strides().data());
  return view;
}

inline std::span<const int64_t> shape_of(const at::Tensor& tensor) {
  return {tensor.sizes().data(), tensor.sizes().size()};
}

PIPELINE_SDK_END
