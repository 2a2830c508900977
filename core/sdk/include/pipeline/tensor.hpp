#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>

#include <span>
#include <vector>

PIPELINE_SDK_BEGIN

inline constexpr pl_dtype kFloat64{PL_DTYPE_FLOAT, 64, 1};
inline constexpr pl_dtype kFloat32{PL_DTYPE_FLOAT, 32, 1};
inline constexpr pl_dtype kFloat16{PL_DTYPE_FLOAT, 16, 1};
inline constexpr pl_dtype kBFloat16{PL_DTYPE_BFLOAT, 16, 1};
inline constexpr pl_dtype kInt64{PL_DTYPE_INT, 64, 1};
inline constexpr pl_dtype kInt32{PL_DTYPE_INT, 32, 1};
inline constexpr pl_dtype kUInt8{PL_DTYPE_UINT, 8, 1};
inline constexpr pl_dtype kBool{PL_DTYPE_BOOL, 8, 1};

inline constexpr pl_device kCpu{PL_DEVICE_CPU, 0};

inline constexpr pl_stream kNoStream{PL_STREAM_NONE, 0, nullptr};

inline bool same(pl_dtype a, pl_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
inline bool same(pl_device a, pl_device b) { return a.type == b.type && a.id == b.id; }

inline std::string name_of(pl_dtype dtype) {
  const char* kind = dtype.code == PL_DTYPE_INT      ? "int"
                     : dtype.code == PL_DTYPE_UINT   ? "uint"
                     : dtype.code == PL_DTYPE_FLOAT  ? "float"
                     : dtype.code == PL_DTYPE_BFLOAT ? "bfloat"
                     : dtype.code == PL_DTYPE_BOOL   ? "bool"
                                                     : "dtype";
  return concat(kind, static_cast<unsigned>(dtype.bits));
}

inline std::string name_of(pl_device device) {
  return device.type == PL_DEVICE_CUDA  ? concat("cuda:", device.id)
         : device.type == PL_DEVICE_CPU ? "cpu"
                                        : concat("device type ", device.type);
}

inline std::span<const int64_t> shape_of(const pl_tensor& t) {
  return {t.shape, static_cast<size_t>(t.ndim)};
}

inline std::string name_of(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += concat(i == 0 ? "" : ", ", shape[i]);
  return text + ')';
}

inline uint64_t element_count(std::span<const int64_t> shape) {
  uint64_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<uint64_t>(extent);
  return count;
}
inline uint64_t element_count(const pl_tensor& t) { return element_count(shape_of(t)); }

inline uint64_t byte_size(pl_dtype dtype, uint64_t count) { return (count * dtype.bits + 7) / 8; }

// Row-major without gaps; the stride of an extent of 1 does not matter.
inline bool is_contiguous(const pl_tensor& t) {
  if (t.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t d = t.ndim - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.shape[d];
  }
  return true;
}

inline void* data_of(const pl_tensor& t) {
  return t.data == nullptr ? nullptr : static_cast<char*>(t.data) + t.byte_offset;
}

// The elements of a contiguous host tensor of dtype T.
template <class T>
std::span<T> elements(const pl_tensor& t, pl_dtype dtype) {
  if (!same(t.dtype, dtype) || dtype.bits != 8 * sizeof(T))
    fail("tensor of ", name_of(t.dtype), ", expected ", name_of(dtype));
  if (t.device.type == PL_DEVICE_CUDA) fail("tensor on ", name_of(t.device), ", expected host memory");
  if (!is_contiguous(t)) fail("tensor of shape ", name_of(shape_of(t)), " is not contiguous");
  return {static_cast<T*>(data_of(t)), element_count(t)};
}

// A contiguous view of memory owned elsewhere. Owns its shape.
class TensorView {
 public:
  TensorView() = default;
  TensorView(void* data, pl_dtype dtype, std::vector<int64_t> shape, pl_device device = kCpu)
      : data_(data), dtype_(dtype), device_(device), shape_(std::move(shape)) {}

  // Valid until this object is changed, moved or destroyed.
  pl_tensor get() {
    pl_tensor out{};
    out.data = data_;
    out.device = device_;
    out.dtype = dtype_;
    out.ndim = static_cast<int32_t>(shape_.size());
    out.shape = shape_.data();
    return out;
  }

 private:
  void* data_ = nullptr;
  pl_dtype dtype_ = kFloat32;
  pl_device device_ = kCpu;
  std::vector<int64_t> shape_;
};

PIPELINE_SDK_END
