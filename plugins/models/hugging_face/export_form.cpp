#include "hugging_face/export_form.hpp"

#include <pipeline/error.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <set>
#include <span>

#include "core/json/strict_json.hpp"
#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"
#include "hugging_face/bitsandbytes.hpp"
#include "hugging_face/config_file.hpp"

namespace pipeline::hugging_face {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr const char *kDtype = "dtype", *kShape = "shape", *kData = "data";
constexpr uint64_t kMostUnused = uint64_t{256} << 20;

std::string plain_name(const NameMap& map, const std::string& name) {
  return map.plain_name ? map.plain_name(name) : name;
}

// One tensor of the file that is written.
struct Written {
  std::string name;
  at::ScalarType type;
  const ParameterRegistry::Declared* parameter;
  Piece piece;

  at::Tensor value(const NameMap& map) const {
    return piece.written(map.value ? map.value(*parameter) : parameter->value()).detach();
  }
};

// Tensors under the names and in the types of the folder; an output head that is the embedding again where it
// has one.
std::vector<Written> written(const ParameterRegistry& parameters, const NameMap& map,
                             const ExportForm& form) {
  std::map<std::string, std::string> theirs;  // by plain names
  for (const auto& [name, type] : form.types) theirs.emplace(plain_name(map, name), name);
  std::vector<Written> all;
  for (const ParameterRegistry::Declared& parameter : parameters)
    for (const Piece& piece : pieces_of(parameter, map)) {
      const auto add = [&](const std::string& name) {
        const at::ScalarType type = form.types.contains(name) ? form.types.at(name) : form.type;
        all.push_back({name, form.is_widened && type == at::kHalf ? at::kFloat : type, &parameter, piece});
      };
      const auto found = theirs.find(plain_name(map, piece.name));
      add(found == theirs.end() ? piece.name : found->second);
      if (map.head.empty() || plain_name(map, piece.name) != map.tied_to) continue;
      if (const auto head = theirs.find(map.head); head != theirs.end()) add(head->second);
    }
  return all;
}

bool fit_in_half(const std::vector<Written>& all, const NameMap& map) {
  return std::none_of(all.begin(), all.end(), [&](const Written& one) {
    if (one.type != at::kHalf) return false;
    const at::Tensor value = one.value(map);
    return value.isfinite().logical_and(value.to(at::kHalf).isinf()).any().item<bool>();
  });
}

safetensors::Dtype dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return safetensors::Dtype::kBF16;
    case at::kHalf:
      return safetensors::Dtype::kF16;
    case at::kDouble:
      return safetensors::Dtype::kF64;
    default:
      return safetensors::Dtype::kF32;
  }
}

// The type of weights that a config.json states.
at::ScalarType type_of(const ordered_json& values) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!values.is_object() || !values.contains(key)) continue;
    if (values[key] == "bfloat16") return at::kBFloat16;
    if (values[key] == "float16") return at::kHalf;
    if (values[key] == "float64") return at::kDouble;
  }
  return at::kFloat;
}

const char* name_of(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16"
         : type == at::kHalf   ? "float16"
         : type == at::kDouble ? "float64"
                               : "float32";
}

[[noreturn]] void fail_as_damaged() {
  fail_with(PL_ERROR_CONFIG, "what the checkpoint says of the weights' folder is damaged");
}

// A line of JSON, by names; behind it are the bytes that kData gives the bounds of.
struct Kept {
  json tensors;
  std::string_view bytes;
};
Kept parse_kept(std::string_view text) {
  const size_t end = text.find('\n');
  try {
    json tensors = strict_json::parse(text.substr(0, end), kWeightsText);
    if (tensors.is_object() && end != text.npos) return {std::move(tensors), text.substr(end + 1)};
  } catch (const strict_json::JsonError&) {  // is no better than another kind of value
  }
  fail_as_damaged();
}

uint64_t count(const json& value) { return value.get_ref<const json::number_unsigned_t&>(); }

void read_kept(const std::string& text, ExportForm& form) {
  const auto [tensors, bytes] = parse_kept(text);
  try {
    for (const auto& [name, tensor] : tensors.items()) {
      const auto dtype = tensor.at(kDtype).get<std::string>();
      if (!tensor.contains(kShape)) {
        form.types[name] = scalar_type_of(dtype).value();
        continue;
      }
      ExportForm::Unused& unused = form.unused[name] = {dtype, {}, std::nullopt};
      for (const json& size : tensor.at(kShape)) unused.shape.push_back(static_cast<int64_t>(count(size)));
      const uint64_t size =
          safetensors::byte_size(safetensors::dtype_from_name(dtype).value(), unused.shape, name);
      if (!tensor.contains(kData)) continue;
      const uint64_t first = count(tensor.at(kData).at(0)), last = count(tensor.at(kData).at(1));
      if (first > last || last > bytes.size() || last - first != size) fail_as_damaged();
      unused.data = bytes.substr(first, size);
    }
  } catch (const std::exception&) {
    fail_as_damaged();
  }
}

}  // namespace

std::string kept_weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map,
                         const OwnName& own_name) {
  std::set<std::string> used{map.head};
  for (const Parameter& parameter : parameters)
    for (const Piece& piece : pieces_of(parameter, map)) used.insert(piece.name);
  used.erase("");
  const auto files = safetensors::Folder::open(folder, map.file);
  json all = json::object();
  std::string bytes;
  const FindTensor find = [&](const std::string& name) { return files.find(name); };
  for (const std::string& name : files.names()) {
    const safetensors::TensorView& tensor = files.at(name);
    const std::string own = own_name ? own_name(name) : name;
    // What is quantized there is written here as config.json says that the others are.
    if (own.empty() || is_beside_codes(name, find) || QuantizedMatrix::of(tensor, find)) continue;
    json& kept = all[own] = {{kDtype, tensor.dtype_name()}};
    if (used.contains(plain_name(map, name))) continue;
    kept[kShape] = tensor.shape;
    if (bytes.size() + tensor.data.size() > kMostUnused) continue;
    kept[kData] = {bytes.size(), bytes.size() + tensor.data.size()};
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    tensor.forget();
  }
  return all.dump() + "\n" + bytes;
}

std::string kept_of_part(const std::string& kept, const OwnName& own_name) {
  const Kept all = parse_kept(kept);
  json part = json::object();
  for (const auto& [name, tensor] : all.tensors.items())
    if (const std::string own = own_name(name); !own.empty()) part[own] = tensor;
  return concat(part.dump(), "\n", all.bytes);
}

bool ExportForm::is_complete() const {
  return !types.empty() && std::all_of(unused.begin(), unused.end(),
                                       [](const auto& one) { return one.second.data.has_value(); });
}

ExportForm export_form(const FolderTexts& came, const ParameterRegistry& parameters, const NameMap& map) {
  ExportForm form;
  if (const auto config = came.find("config.json"); config != came.end())
    form.type = type_of(ordered_json::parse(config->second, nullptr, /*allow_exceptions=*/false));
  if (const auto kept = came.find(kWeightsText); kept != came.end()) read_kept(kept->second, form);
  for (const ParameterRegistry::Declared& parameter : parameters)
    if (!parameter.tensor.is_floating_point())
      form.frozen = parameter.tensor.scalar_type() == at::kChar ? "int8" : "nf4";
  if (parameters.exports_float32()) {
    form.type = at::kFloat;
    for (auto& [name, type] : form.types) type = at::kFloat;
  }
  form.is_widened = !fit_in_half(written(parameters, map, form), map);
  return form;
}

std::vector<std::string> notes_of(const ExportForm& form) {
  std::vector<std::string> notes;
  if (form.frozen != nullptr)
    notes.push_back(concat("the frozen matrices are written as they were trained with, the values of ",
                           form.frozen, ", and not as the folder has them that the run began with"));
  if (form.is_widened)
    notes.emplace_back(
        "the weights are written in float32, and config.json says so: the model's folder has them in "
        "float16, which ends at 65504, and training has led a value beyond it");
  std::set<std::string> types;
  for (const auto& [name, type] : form.types) types.insert(name_of(type));
  if (types.empty()) types.insert(name_of(form.type));
  std::string list;
  for (const std::string& type : types) list += (list.empty() ? "" : " and ") + type;
  if (!form.is_widened && list != "float32")
    notes.push_back(concat("the weights are written as the model's folder has them, in ", list,
                           list == "float64" ? "" : ": each is rounded once"));
  constexpr size_t kMostListed = 20;
  size_t left_out = 0;
  list.clear();
  for (const auto& [name, tensor] : form.unused)
    if (!tensor.data && ++left_out <= kMostListed) list += (list.empty() ? "" : ", ") + shown(name);
  if (left_out > kMostListed) list += concat(", and ", left_out - kMostListed, " more");
  if (left_out > 0)
    notes.push_back(concat("left out are ", left_out, " tensor(s) of the model's folder that the model does ",
                           "not use, of which checkpoints keep ", kMostUnused >> 20, " MiB: ", list));
  return notes;
}

void export_weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map,
                    const std::vector<std::pair<std::string, at::Tensor>>& others, const ExportForm& form) {
  safetensors::Writer writer(folder + "/" + map.file, {.sync = true});
  std::map<std::string, std::function<void(const std::string& name)>> write;  // each in the file's order
  const auto write_tensor = [&](const std::string& name, const at::Tensor& value, at::ScalarType type) {
    const at::Tensor plain = value.detach().to(at::kCPU, type).contiguous();
    writer.write(name, {static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()});
  };
  for (const Written& one : written(parameters, map, form)) {
    writer.declare(one.name, dtype_of(one.type), one.piece.shape(one.parameter->shape));
    write[one.name] = [&, one](const std::string& name) { write_tensor(name, one.value(map), one.type); };
  }
  for (const auto& [name, tensor] : form.unused) {
    if (!tensor.data) continue;
    writer.declare(name, safetensors::dtype_from_name(tensor.dtype).value(), tensor.shape);
    write[name] = [&writer, &data = *tensor.data](const std::string& of) {
      writer.write(of, std::as_bytes(std::span(data)));
    };
  }
  if (form.types.empty())
    for (const auto& one : others) {
      writer.declare(one.first, dtype_of(form.type), one.second.sizes().vec());
      write[one.first] = [&](const std::string& name) { write_tensor(name, one.second, form.type); };
    }
  for (const safetensors::TensorInfo& tensor : writer.layout()) write.at(tensor.name)(tensor.name);
  writer.finish();
}

void export_weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map,
                    const std::vector<std::pair<std::string, at::Tensor>>& others) {
  export_weights(folder, parameters, map, others, ExportForm());
}

Came came_from(const FolderTexts& texts, std::initializer_list<const char*> model_types) {
  const auto found = texts.find("config.json");
  if (found == texts.end()) return {};
  ordered_json config = ordered_json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("model_type")) return {};
  const ordered_json& type = config["model_type"];
  if (std::none_of(model_types.begin(), model_types.end(), [&](const char* one) { return type == one; }))
    return {};
  return {texts, std::move(config)};
}

void take_changes(ordered_json& values, const json& theirs, const json& ours) {
  for (const auto& [key, value] : ours.items()) {
    const auto there = theirs.find(key);
    if (there != theirs.end() && *there == value) continue;
    if (there != theirs.end() && there->is_object() && value.is_object() && values.contains(key) &&
        values[key].is_object())
      take_changes(values[key], *there, value);
    else
      values[key] = value;
  }
}

namespace {

void say_float32(ordered_json& values) {
  for (auto& [key, value] : values.items()) {
    if (value.is_object()) say_float32(value);
    if ((key == kDtype || key == "torch_dtype") && value == "float16") value = "float32";
  }
}

}  // namespace

void write_config(const std::string& folder, ordered_json values, const ExportForm& form) {
  if (form.is_widened) say_float32(values);
  values.erase("quantization_config");  // of the folder that it came from
  write_text(folder + "/config.json", values.dump(2) + "\n");
}

}  // namespace pipeline::hugging_face
