#include "plugins/tasks/protein/esm2/extras.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/json/strict_json.hpp"

namespace pipeline::protein::esm2 {
namespace {

using nlohmann::json;

constexpr const char* kWhat = "what the weights carry besides ESM-2's parameters";

[[noreturn]] void fail(const std::string& problem) {
  throw std::runtime_error(std::string(kWhat) + ": " + problem);
}

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

}  // namespace

// JSON: a list of numbers by name. fp32 goes there and back without loss.
std::string Extras::pack(const Esm2Config& config) const {
  json packed = json::object();
  each(*this, config, [&](const char* name, const at::Tensor& tensor, const std::vector<int64_t>&) {
    if (!tensor.defined()) return;
    const float* const values = tensor.const_data_ptr<float>();
    packed[name] = std::vector<float>(values, values + tensor.numel());
  });
  return packed.empty() ? "" : packed.dump();
}

Extras Extras::unpack(std::string_view text, const Esm2Config& config) {
  Extras extras;
  if (text.empty()) return extras;
  json packed = strict_json::parse(text, kWhat);
  if (!packed.is_object()) fail("is " + strict_json::excerpt(packed) + ", must be a JSON object");
  each(extras, config, [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    const auto found = packed.find(name);
    if (found == packed.end()) return;
    if (!found->is_array() ||
        !std::all_of(found->begin(), found->end(), [](const json& v) { return v.is_number(); }))
      fail(std::string(name) + " is " + strict_json::excerpt(*found) + ", must be a list of numbers");
    if (static_cast<int64_t>(found->size()) != elements(shape))
      fail(std::string(name) + " has " + std::to_string(found->size()) + " elements, must have " +
           std::to_string(elements(shape)) + ": this is a model of another size");
    tensor = at::tensor(found->get<std::vector<float>>()).view(shape);
    packed.erase(found);
  });
  if (!packed.empty()) fail(packed.begin().key() + " is nothing that this version knows");
  return extras;
}

}  // namespace pipeline::protein::esm2
