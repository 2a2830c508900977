#include "core/safetensors/rewrite.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"

namespace pipeline::safetensors {
namespace {

constexpr size_t kPiece = size_t{1} << 18;  // values that are converted at once

bool is_floating(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBF16;
}

size_t bytes_of(Dtype dtype) { return static_cast<size_t>(dtype_bits(dtype)) / 8; }

float widened_bfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float widened_half(uint16_t half) {
  const uint32_t size = uint32_t{half & 0x7fffU} << 13, sign = uint32_t{half & 0x8000U} << 16;
  // The exponent is 112 higher in a float; the product takes what has none as well.
  const float scaled = std::bit_cast<float>(size) * 0x1p112F;
  const uint32_t bits = size >= 0x0f800000 ? size | 0x7f800000 : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(bits | sign);
}

uint16_t half_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffff;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (size > 0x7f800000) return sign | 0x7e00;   // no number
  if (size >= 0x477ff000) return sign | 0x7c00;  // 65520, from which on it is nearer to what would be next
  if (size < 0x38800000)  // 2^-14: the sum ends at the last digit that a half has there
    return sign |
           static_cast<uint16_t>(std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3f000000);
  return sign | static_cast<uint16_t>((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

uint16_t bfloat16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double read_value(Dtype dtype, const std::byte* at) {
  const auto as = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case Dtype::kF64:
      return as(double{});
    case Dtype::kF32:
      return as(float{});
    case Dtype::kBF16:
      return widened_bfloat16(as(uint16_t{}));
    default:
      return widened_half(as(uint16_t{}));
  }
}

// Returns the value that is written.
float write_value(Dtype dtype, float value, std::byte* at) {
  const auto write = [at](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  if (dtype == Dtype::kF32) {
    write(value);
    return value;
  }
  const uint16_t narrow = dtype == Dtype::kF16 ? half_of(value) : bfloat16_of(value);
  write(narrow);
  return dtype == Dtype::kF16 ? widened_half(narrow) : widened_bfloat16(narrow);
}

class Converter {
 public:
  explicit Converter(std::optional<Dtype> dtype) : dtype_(dtype) {}

  Dtype of(const TensorView& tensor) const {
    return dtype_ && is_floating(tensor.dtype) ? *dtype_ : tensor.dtype;
  }
  uint64_t size(const TensorView& tensor) const { return byte_size(of(tensor), tensor.shape, tensor.name); }

  void write(const TensorView& tensor, Writer& writer) {
    if (of(tensor) == tensor.dtype) {
      writer.write(tensor.name, tensor.data);
    } else {
      const size_t width = bytes_of(tensor.dtype), count = tensor.data.size() / width;
      for (size_t first = 0; first < count; first += kPiece)
        writer.write(tensor.name, convert(tensor, first, std::min(kPiece, count - first)));
    }
    if (is_floating(tensor.dtype)) done.values += tensor.data.size() / bytes_of(tensor.dtype);
    done.bytes += size(tensor);
    tensor.forget();
  }

  Rewritten done;

 private:
  std::span<const std::byte> convert(const TensorView& tensor, size_t first, size_t count) {
    const Dtype to = of(tensor);
    const size_t from_width = bytes_of(tensor.dtype), width = bytes_of(to);
    piece_.resize(count * width);
    for (size_t i = 0; i < count; ++i) {
      const double value = read_value(tensor.dtype, tensor.data.data() + (first + i) * from_width);
      const double written = write_value(to, static_cast<float>(value), piece_.data() + i * width);
      if (written == value || std::isnan(value)) continue;
      if (std::isinf(written))
        throw SafetensorsError(tensor.name + " has the value " + std::to_string(value) + ", which " +
                               std::string(dtype_name(to)) + " cannot have: its largest is " +
                               (to == Dtype::kF16 ? "65504" : "3.4e38"));
      ++done.rounded;
      done.largest_change = std::max(done.largest_change, std::abs(written - value));
    }
    return piece_;
  }

  std::optional<Dtype> dtype_;
  std::vector<std::byte> piece_;
};

void write_file(const std::string& path, const File& from, const std::vector<const TensorView*>& tensors,
                Converter& converter) {
  Writer writer(path, {.sync = true, .metadata = from.metadata()});
  for (const TensorView* tensor : tensors) writer.declare(tensor->name, converter.of(*tensor), tensor->shape);
  for (const TensorInfo& tensor : writer.layout()) converter.write(from.at(tensor.name), writer);
  writer.finish();
}

}  // namespace

Rewritten rewrite(const std::filesystem::path& file, std::optional<Dtype> dtype, uint64_t shard_bytes) {
  const File from = File::open(file.string());
  Converter converter(dtype);
  std::vector<std::vector<const TensorView*>> shards(1);
  uint64_t filled = 0;
  bool is_same = true;
  for (const TensorView& tensor : from.tensors()) {
    const uint64_t size = converter.size(tensor);
    if (filled > 0 && filled + size > shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += size;
    shards.back().push_back(&tensor);
    is_same = is_same && converter.of(tensor) == tensor.dtype;
  }
  if (is_same && shards.size() == 1) return converter.done;

  if (shards.size() == 1) {
    const std::string beside = file.string() + ".new";
    write_file(beside, from, shards.front(), converter);
    std::filesystem::rename(beside, file);
    return converter.done;
  }
  converter.done.shards = shards.size();
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    char number[40];
    std::snprintf(number, sizeof number, "-%05zu-of-%05zu", i + 1, shards.size());
    const std::string name = file.stem().string() + number + file.extension().string();
    write_file((file.parent_path() / name).string(), from, shards[i], converter);
    for (const TensorView* tensor : shards[i]) map[tensor->name] = name;
  }
  const nlohmann::ordered_json index{{"metadata", {{"total_size", converter.done.bytes}}},
                                     {"weight_map", map}};
  const std::string path = file.string() + ".index.json";
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << index.dump(2) << "\n";
  out.close();
  if (!out) throw system_error(path + ": cannot be written");
  std::filesystem::remove(file);
  return converter.done;
}

}  // namespace pipeline::safetensors
