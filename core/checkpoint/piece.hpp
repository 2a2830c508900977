#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/safetensors/dtype.hpp"

namespace pipeline::checkpoint {

inline std::string_view text(pl_str value) {
  return value.len == 0 ? std::string_view() : std::string_view(value.ptr, value.len);
}
inline std::vector<int64_t> shape_of(const pl_piece& piece) {
  return piece.ndim == 0 ? std::vector<int64_t>()
                         : std::vector<int64_t>(piece.shape, piece.shape + piece.ndim);
}

// Throws pipeline::Error with `label` in it for a dtype that safetensors does not have.
safetensors::Dtype dtype_of(const pl_piece& piece, std::string_view label);

}  // namespace pipeline::checkpoint
