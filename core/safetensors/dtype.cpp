#include "core/safetensors/dtype.hpp"

#include <array>

namespace pipeline::safetensors {
namespace {

struct Entry {
  Dtype dtype;
  std::string_view name;
  int bits;
};

// In the order of the enumerators, so that an enumerator is its own index.
constexpr std::array<Entry, 20> kDtypes = {{
    {Dtype::kBool, "BOOL", 8},      {Dtype::kU8, "U8", 8},          {Dtype::kI8, "I8", 8},
    {Dtype::kF4, "F4", 4},          {Dtype::kF6E2M3, "F6_E2M3", 6}, {Dtype::kF6E3M2, "F6_E3M2", 6},
    {Dtype::kF8E5M2, "F8_E5M2", 8}, {Dtype::kF8E4M3, "F8_E4M3", 8}, {Dtype::kF8E8M0, "F8_E8M0", 8},
    {Dtype::kI16, "I16", 16},       {Dtype::kU16, "U16", 16},       {Dtype::kF16, "F16", 16},
    {Dtype::kBF16, "BF16", 16},     {Dtype::kI32, "I32", 32},       {Dtype::kU32, "U32", 32},
    {Dtype::kF32, "F32", 32},       {Dtype::kC64, "C64", 64},       {Dtype::kF64, "F64", 64},
    {Dtype::kI64, "I64", 64},       {Dtype::kU64, "U64", 64},
}};

constexpr bool table_matches_enum() {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].dtype != static_cast<Dtype>(i)) return false;
  }
  return true;
}
static_assert(table_matches_enum());

}  // namespace

std::string_view dtype_name(Dtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).name; }

int dtype_bits(Dtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).bits; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const Entry& entry : kDtypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace pipeline::safetensors
