#include "core/safetensors/header.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "core/json/strict_json.hpp"

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

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;

std::string range_string(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + "]";
}

const json& member(const json& object, const char* key, const std::string& context) {
  const auto found = object.find(key);
  if (found == object.end()) throw SafetensorsError(context + ": has no \"" + key + "\"");
  return *found;
}

std::vector<uint64_t> unsigned_list(const json& value, const char* key, const std::string& context) {
  const auto bad = [&] {
    return SafetensorsError(context + ": " + key + " = " + strict_json::excerpt(value) +
                            ": must be a list of non-negative integers");
  };
  if (!value.is_array()) throw bad();
  std::vector<uint64_t> numbers;
  for (const json& number : value) {
    if (!number.is_number_unsigned()) throw bad();
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

TensorInfo parse_tensor(const std::string& name, const json& value, const std::string& file) {
  const std::string context = file + ": tensor " + strict_json::excerpt(name);
  if (!value.is_object())
    throw SafetensorsError(context + ": is " + strict_json::excerpt(value) + ": must be an object");
  for (const auto& [key, ignored] : value.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      throw SafetensorsError(context + ": unknown key " + strict_json::excerpt(key) +
                             ": expected dtype, shape and data_offsets");
  }
  const json& dtype_value = member(value, "dtype", context);
  const auto dtype =
      dtype_value.is_string() ? dtype_from_name(dtype_value.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype)
    throw SafetensorsError(context + ": dtype = " + strict_json::excerpt(dtype_value) +
                           ": not a dtype of the format");

  TensorInfo info{name, *dtype, {}, 0, 0};
  for (const uint64_t dim : unsigned_list(member(value, "shape", context), "shape", context)) {
    if (dim > uint64_t{std::numeric_limits<int64_t>::max()})
      throw SafetensorsError(context + ": dimension " + std::to_string(dim) +
                             ": larger than a signed 64-bit integer");
    info.shape.push_back(static_cast<int64_t>(dim));
  }
  const auto offsets = unsigned_list(member(value, "data_offsets", context), "data_offsets", context);
  if (offsets.size() != 2)
    throw SafetensorsError(context + ": data_offsets has " + std::to_string(offsets.size()) +
                           " entries: must have 2");
  info.begin = offsets[0];
  info.end = offsets[1];
  if (info.begin > info.end)
    throw SafetensorsError(context + ": data_offsets " + range_string(info.begin, info.end) +
                           " end before they begin");
  const uint64_t expected = byte_size(info.dtype, info.shape, context);
  if (info.end - info.begin != expected)
    throw SafetensorsError(context + ": data_offsets " + range_string(info.begin, info.end) + " hold " +
                           std::to_string(info.end - info.begin) + " bytes, but " +
                           std::string(dtype_name(info.dtype)) + " of shape " + shape_string(info.shape) +
                           " needs " + std::to_string(expected));
  return info;
}

Metadata parse_metadata(const json& value, const std::string& file) {
  const std::string context = file + ": __metadata__";
  if (!value.is_object())
    throw SafetensorsError(context + " = " + strict_json::excerpt(value) + ": must be an object of strings");
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      throw SafetensorsError(context + "." + key + " = " + strict_json::excerpt(text) + ": must be a string");
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

// The data of the tensors, sorted by offset, must tile [0, data_bytes) exactly.
void check_tiling(const std::vector<TensorInfo>& tensors, uint64_t data_bytes, const std::string& file) {
  uint64_t position = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != position)
      throw SafetensorsError(file + ": tensor " + strict_json::excerpt(tensor.name) + ": data_offsets " +
                             range_string(tensor.begin, tensor.end) +
                             (tensor.begin < position ? " overlap the tensor before" : " leave a gap") +
                             ": must begin at " + std::to_string(position));
    if (tensor.end > data_bytes)
      throw SafetensorsError(file + ": tensor " + strict_json::excerpt(tensor.name) + ": data_offsets " +
                             range_string(tensor.begin, tensor.end) + " reach past the " +
                             std::to_string(data_bytes) +
                             " bytes of data in the file: is it cut short? Copy or download it again");
    position = tensor.end;
  }
  if (position != data_bytes)
    throw SafetensorsError(file + ": holds " + std::to_string(data_bytes) +
                           " bytes of data, but its tensors only " + std::to_string(position));
}

json parse_object(std::string_view text, const std::string& file) {
  try {
    return strict_json::parse(text, file + ": header");
  } catch (const strict_json::JsonError& error) {
    throw SafetensorsError(error.what());
  }
}

uint64_t read_length(std::span<const std::byte> image) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<uint64_t>(image[i]) << (8 * i);
  return length;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).name; }

int dtype_bits(Dtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).bits; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const Entry& entry : kDtypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}
SafetensorsError system_error(const std::string& what) {
  const int code = errno;
  return SafetensorsError(what + ": " + std::strerror(code), code);
}

std::string shape_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

uint64_t byte_size(Dtype dtype, const Shape& shape, const std::string& context) {
  // A zero dimension makes the size 0 only after every other dimension has been found valid.
  uint64_t bits = static_cast<uint64_t>(dtype_bits(dtype));
  bool overflow = false;
  for (const int64_t dim : shape) {
    if (dim < 0)
      throw SafetensorsError(context + ": shape " + shape_string(shape) +
                             ": dimensions must not be negative");
    overflow |= __builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits);
  }
  if (overflow)
    throw SafetensorsError(context + ": shape " + shape_string(shape) + ": the size overflows 64 bits");
  if (bits % 8 != 0)
    throw SafetensorsError(context + ": " + std::string(dtype_name(dtype)) + " of shape " +
                           shape_string(shape) + " is no whole number of bytes");
  return bits / 8;
}

Header parse_header(std::span<const std::byte> image, const std::string& file) {
  if (image.size() < kLengthBytes)
    throw SafetensorsError(file + ": is " + std::to_string(image.size()) +
                           " bytes long: too short for a safetensors file");
  const uint64_t length = read_length(image);
  if (length > kMaxHeaderBytes)
    throw SafetensorsError(file + ": header length = " + std::to_string(length) + ": must be at most " +
                           std::to_string(kMaxHeaderBytes) + ": not a safetensors file?");
  if (length > image.size() - kLengthBytes)
    throw SafetensorsError(file + ": header length = " + std::to_string(length) + ", but the file has only " +
                           std::to_string(image.size() - kLengthBytes) +
                           " bytes after it: is it cut short? Copy or download it again");
  const std::string_view text(reinterpret_cast<const char*>(image.data()) + kLengthBytes, length);
  if (!text.starts_with('{'))
    throw SafetensorsError(file + ": the header must begin with '{': not a safetensors file?");
  const json object = parse_object(text, file);

  Header header;
  header.data_start = kLengthBytes + length;
  for (const auto& [name, value] : object.items()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(value, file);
    } else {
      header.tensors.push_back(parse_tensor(name, value, file));
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_tiling(header.tensors, image.size() - header.data_start, file);
  return header;
}

uint64_t lay_out(std::vector<TensorInfo>& tensors, const std::string& file) {
  std::set<std::string_view> names;
  for (const TensorInfo& tensor : tensors)
    if (!names.insert(tensor.name).second)
      throw SafetensorsError(file + ": tensor " + strict_json::excerpt(tensor.name) + ": declared twice");
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return dtype_bits(a.dtype) > dtype_bits(b.dtype);
  });
  uint64_t position = 0;
  for (TensorInfo& tensor : tensors) {
    const std::string context = file + ": tensor " + strict_json::excerpt(tensor.name);
    tensor.begin = position;
    if (__builtin_add_overflow(position, byte_size(tensor.dtype, tensor.shape, context), &position))
      throw SafetensorsError(context + ": the size of the file overflows 64 bits");
    tensor.end = position;
  }
  return position;
}

std::string format_header(std::span<const TensorInfo> tensors, const Metadata& metadata,
                          const std::string& file) {
  std::string text = "{";
  try {
    if (!metadata.empty()) text += "\"__metadata__\":" + json(metadata).dump() + ",";
    for (const TensorInfo& tensor : tensors)
      text += json(tensor.name).dump() + ":{\"dtype\":\"" + std::string(dtype_name(tensor.dtype)) +
              "\",\"shape\":" + json(tensor.shape).dump() + ",\"data_offsets\":[" +
              std::to_string(tensor.begin) + "," + std::to_string(tensor.end) + "]},";
  } catch (const json::exception&) {  // the only one that dump() throws
    throw SafetensorsError(file + ": a tensor name or a metadata text is not valid UTF-8");
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    throw SafetensorsError(file + ": the header would be " + std::to_string(text.size()) +
                           " bytes long: must be at most " + std::to_string(kMaxHeaderBytes));
  std::string prefix(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prefix + text;
}

}  // namespace pipeline::safetensors
