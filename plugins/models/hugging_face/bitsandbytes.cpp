#include "hugging_face/bitsandbytes.hpp"

#include <pipeline/error.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "core/json/strict_json.hpp"
#include "core/safetensors/file.hpp"
#include "hugging_face/config_file.hpp"

namespace pipeline::hugging_face {
namespace {

using nlohmann::json;
using quantization::Form;
using safetensors::TensorView;

constexpr std::string_view kWeight = ".weight", kState = ".quant_state.bitsandbytes__",
                           kBesideWeight[] = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"},
                           kBesideMatrix[] = {".SCB", ".weight_format"};

[[noreturn]] void fail_at(const TensorView& weight, const std::string& problem) {
  fail_with(PL_ERROR_CONFIG, shown(weight.name), " is quantized by bitsandbytes, and ", problem,
            ": quantize the model anew, or begin with its own folder and train.frozen_precision = \"nf4\"");
}

// What is beside a weight, with as many elements of a type as there must be.
template <class T>
std::vector<T> beside(const TensorView& weight, const FindTensor& find, const std::string& name,
                      std::string_view dtype, size_t count) {
  const TensorView* const tensor = find(name);
  if (tensor == nullptr) fail_at(weight, name + " is missing");
  if (tensor->dtype_name() != dtype || tensor->data.size() != count * sizeof(T))
    fail_at(weight, concat(name, " is ", tensor->dtype_name(), " ", safetensors::shape_string(tensor->shape),
                           ", must have ", count, " of ", dtype));
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

void require_map(const TensorView& weight, const FindTensor& find, const std::string& name,
                 std::span<const float> ours) {
  const std::vector<float> theirs = beside<float>(weight, find, name, "F32", ours.size());
  for (size_t i = 0; i < ours.size(); ++i)
    if (!(std::abs(theirs[i] - ours[i]) <= 1e-6f))
      fail_at(weight, concat(name, " has ", theirs[i], " at ", i, ", must be ", ours[i]));
}

}  // namespace

void check_quantization(const ConfigFile& file) {
  constexpr const char* kKey = "quantization_config";
  const json* const found = file.find(kKey);
  if (found == nullptr || found->is_null()) return;
  const std::string method = found->is_object() ? found->value("quant_method", json("unknown")).dump() : "";
  const auto is = [&](const char* key, const json& value) {
    return found->is_object() && found->contains(key) && (*found)[key] == value;
  };
  const bool is_nf4 = is("load_in_4bit", true) && is("bnb_4bit_quant_type", "nf4");
  if (method == "\"bitsandbytes\"" && (is_nf4 || is("load_in_8bit", true))) return;
  file.fail(kKey, concat("weights that are quantized so (", method,
                         ") are not read, but for bitsandbytes' nf4 and int8: begin with the model that was "
                         "quantized, and train.frozen_precision = \"nf4\""));
}

bool is_beside_codes(const std::string& name, const FindTensor& find) {
  const auto is_of = [&](std::string_view ending, std::string_view weight) {
    return name.ends_with(ending) &&
           find(name.substr(0, name.size() - ending.size()) + std::string(weight)) != nullptr;
  };
  if (const size_t at = name.find(kState); at != name.npos) return find(name.substr(0, at)) != nullptr;
  return std::ranges::any_of(kBesideWeight, [&](auto ending) { return is_of(ending, ""); }) ||
         std::ranges::any_of(kBesideMatrix, [&](auto ending) { return is_of(ending, kWeight); });
}

std::unique_ptr<const QuantizedMatrix> QuantizedMatrix::of(const TensorView& weight, const FindTensor& find) {
  std::unique_ptr<QuantizedMatrix> made(new QuantizedMatrix);
  made->codes_ = &weight;
  if (weight.dtype_name() == "I8" && weight.shape.size() == 2 && weight.name.ends_with(kWeight)) {
    const std::string scales = weight.name.substr(0, weight.name.size() - kWeight.size()) + ".SCB";
    made->form_ = Form::kInt8;
    made->shape_ = weight.shape;
    made->scales_ = beside<float>(weight, find, scales, "F32", static_cast<size_t>(weight.shape[0]));
    for (float& largest : made->scales_) largest /= 127;
    return made;
  }
  const TensorView* const state = find(concat(weight.name, kState, "nf4"));
  if (state == nullptr && find(concat(weight.name, kState, "fp4")) != nullptr)
    fail_at(weight, "as fp4, and only nf4 is read");
  if (state == nullptr) return nullptr;
  json says;
  try {
    says = strict_json::parse({reinterpret_cast<const char*>(state->data.data()), state->data.size()},
                              state->name);
    made->shape_ = says.at("shape").get<std::vector<int64_t>>();
  } catch (const std::exception& error) {
    fail_at(weight, concat("what it says of itself is damaged: ", error.what()));
  }
  const bool is_nested = says.contains("nested_offset");
  if (made->shape_.size() != 2 || made->shape_[0] < 1 || made->shape_[1] < 1 ||
      made->shape_[0] > (int64_t{1} << 31) || made->shape_[1] > (int64_t{1} << 31))
    fail_at(weight, "its shape " + says["shape"].dump() + " is no matrix's");
  const int64_t count = made->shape_[0] * made->shape_[1];
  if (says.value("blocksize", json(0)) != quantization::kBlock || count % quantization::kBlock != 0)
    fail_at(weight, concat("in blocks of ", says.value("blocksize", json(0)).dump(),
                           ", must be 64, which divide it"));
  if (weight.dtype_name() != "U8" || weight.data.size() != static_cast<size_t>(count / 2))
    fail_at(weight, concat("is ", weight.dtype_name(), " ", safetensors::shape_string(weight.shape),
                           ", must have ", count / 2, " of U8"));
  require_map(weight, find, weight.name + ".quant_map", quantization::kNf4Levels);
  const auto blocks = static_cast<size_t>(count / quantization::kBlock);
  if (!is_nested) {
    made->scales_ = beside<float>(weight, find, weight.name + ".absmax", "F32", blocks);
    return made;
  }
  if (says.value("nested_blocksize", json(0)) != quantization::kBlocksAGroup ||
      !says["nested_offset"].is_number())
    fail_at(weight, "its sizes are not in groups of 256");
  require_map(weight, find, weight.name + ".nested_quant_map", quantization::dynamic_map());
  made->sizes_ = beside<uint8_t>(weight, find, weight.name + ".absmax", "U8", blocks);
  made->scales_ = beside<float>(weight, find, weight.name + ".nested_absmax", "F32",
                                (blocks + quantization::kBlocksAGroup - 1) / quantization::kBlocksAGroup);
  made->mean_ = says["nested_offset"].get<float>();
  return made;
}

bool QuantizedMatrix::is_in(Form form) const {
  return form == form_ && quantization::Row::takes(shape_[1]) && (form == Form::kInt8 || !sizes_.empty());
}

void QuantizedMatrix::arrange(std::byte* out) const {
  const auto* const codes = reinterpret_cast<const uint8_t*>(codes_->data.data());
  quantization::arrange(form_, shape_[0], shape_[1], {codes, scales_.data(), sizes_.data(), mean_}, out);
}

at::Tensor QuantizedMatrix::values() const {
  at::Tensor all = at::empty(shape_, at::kFloat);
  float* const out = all.mutable_data_ptr<float>();
  const auto* const codes = reinterpret_cast<const uint8_t*>(codes_->data.data());
  if (form_ == Form::kInt8) {
    for (int64_t i = 0; i < all.numel(); ++i)
      out[i] =
          static_cast<float>(static_cast<int8_t>(codes[i])) * scales_[static_cast<size_t>(i / shape_[1])];
    return all;
  }
  const auto& map = quantization::dynamic_map();
  for (size_t block = 0; block < static_cast<size_t>(all.numel() / quantization::kBlock); ++block) {
    const float size = sizes_.empty()
                           ? scales_[block]
                           : map[sizes_[block]] * scales_[block / quantization::kBlocksAGroup] + mean_;
    for (size_t i = block * quantization::kBlock; i < (block + 1) * quantization::kBlock; ++i)
      out[i] = quantization::kNf4Levels[i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15] * size;
  }
  return all;
}

}  // namespace pipeline::hugging_face
