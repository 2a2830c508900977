#include "core/base/abi_values.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace pipeline {
namespace {

struct Kind {
  uint8_t code;
  std::string_view name, precision;
};

constexpr std::array kKinds{
    Kind{PL_DTYPE_INT, "int", "int"},    Kind{PL_DTYPE_UINT, "uint", "uint"},
    Kind{PL_DTYPE_FLOAT, "float", "fp"}, Kind{PL_DTYPE_BFLOAT, "bfloat", "bf"},
    Kind{PL_DTYPE_BOOL, "bool", "bool"},
};

std::string name_with_bits(pl_dtype dtype, std::string_view Kind::*name) {
  const auto* const kind = std::ranges::find(kKinds, dtype.code, &Kind::code);
  return std::string(kind == kKinds.end() ? "unknown" : kind->*name) + std::to_string(dtype.bits);
}

}  // namespace

std::string dtype_name(pl_dtype dtype) { return name_with_bits(dtype, &Kind::name); }
std::string precision_name(pl_dtype dtype) { return name_with_bits(dtype, &Kind::precision); }

}  // namespace pipeline
