#include "core/checkpoint/piece.hpp"

#include <optional>
#include <string>

#include "core/base/error.hpp"

namespace pipeline::checkpoint {
namespace {

using safetensors::Dtype;

std::optional<Dtype> find_dtype(pl_dtype dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  switch (dtype.code << 8 | dtype.bits) {
    case PL_DTYPE_FLOAT << 8 | 16:
      return Dtype::kF16;
    case PL_DTYPE_FLOAT << 8 | 32:
      return Dtype::kF32;
    case PL_DTYPE_FLOAT << 8 | 64:
      return Dtype::kF64;
    case PL_DTYPE_BFLOAT << 8 | 16:
      return Dtype::kBF16;
    case PL_DTYPE_INT << 8 | 8:
      return Dtype::kI8;
    case PL_DTYPE_INT << 8 | 16:
      return Dtype::kI16;
    case PL_DTYPE_INT << 8 | 32:
      return Dtype::kI32;
    case PL_DTYPE_INT << 8 | 64:
      return Dtype::kI64;
    case PL_DTYPE_UINT << 8 | 8:
      return Dtype::kU8;
    case PL_DTYPE_UINT << 8 | 16:
      return Dtype::kU16;
    case PL_DTYPE_UINT << 8 | 32:
      return Dtype::kU32;
    case PL_DTYPE_UINT << 8 | 64:
      return Dtype::kU64;
    case PL_DTYPE_BOOL << 8 | 8:
      return Dtype::kBool;
    default:
      return std::nullopt;
  }
}

}  // namespace

Dtype dtype_of(const pl_piece& piece, std::string_view label) {
  if (const std::optional<Dtype> dtype = find_dtype(piece.dtype)) return *dtype;
  throw Error(PL_ERROR_UNSUPPORTED,
              "checkpoint piece " + std::string(label) + ": dtype code " + std::to_string(piece.dtype.code) +
                  " with " + std::to_string(piece.dtype.bits) + " bits and " +
                  std::to_string(piece.dtype.lanes) + " lanes cannot be stored in safetensors");
}

}  // namespace pipeline::checkpoint
