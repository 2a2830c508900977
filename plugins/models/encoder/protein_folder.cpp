#include "plugins/models/encoder/protein_folder.hpp"

#include <algorithm>
#include <stdexcept>

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "heads/label_folder.hpp"
#include "plugins/models/protein/label_head.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::encoder {
namespace {

using nlohmann::json;

constexpr const char *kWhat = "what the weights carry besides parameters", *kFiles = "files",
                     *kTiedHead = "lm_head.decoder.weight";

[[noreturn]] void fail(const std::string& problem) {
  throw std::runtime_error(std::string(kWhat) + ": " + problem);
}

hugging_face::NameMap name_map(const Architecture& row) {
  hugging_face::NameMap map{.pieces = [&row](const Parameter& parameter) { return row.pieces(parameter); },
                            .plain_name = row.plain_name};
  if (row.names.decoder == nullptr) map.head = kTiedHead, map.tied_to = row.names.words;
  return map;
}

struct Checked {
  const Architecture& row;
  Config config;
  void check() const { row.check(config); }
};

}  // namespace

hugging_face::ModelFields<Config> esm_fields(const SizeHelp& help, int64_t (*inner)(const Config& config),
                                             const hugging_face::ModelFields<Config>& others) {
  using Field = hugging_face::ModelField<Config>;
  hugging_face::ModelFields<Config> fields{
      Field("num_layers", &Config::num_hidden_layers, help.layers)
          .range(1, kMostLayers)
          .set_from(1, kMostLayers)
          .called("num_hidden_layers"),
      Field("hidden_dim", &Config::hidden_size, help.width)
          .range(1, kMostWidth)
          .set_from(2, kMostWidth)
          .called("hidden_size"),
      Field("num_heads", &Config::num_attention_heads, help.heads)
          .range(1, kMostWidth)
          .called("num_attention_heads"),
      Field("intermediate_dim", &Config::intermediate_size, help.inner)
          .range(0, kMostWidth)
          .set_from(0, kMostWidth)
          .called("intermediate_size")
          .checked_as("intermediate")
          .stands_for(inner),
      Field("initializer_range", &Config::initializer_range).positive().of_run(),
  };
  fields.insert(fields.end(), others.begin(), others.end());
  return fields;
}

// JSON: a list of numbers by name. fp32 goes there and back without loss.
std::string Extras::pack(const Architecture& row, const Config& config) const {
  json packed = json::object();
  each(*this, row, config, [&](const char* name, const at::Tensor& tensor, const std::vector<int64_t>&) {
    if (!tensor.defined()) return;
    const float* const values = tensor.const_data_ptr<float>();
    packed[name] = std::vector<float>(values, values + tensor.numel());
  });
  if (!files.empty()) packed[kFiles] = files;
  return packed.empty() ? "" : packed.dump();
}

Extras Extras::unpack(std::string_view text, const Architecture& row, const Config& config) {
  Extras extras;
  if (text.empty()) return extras;
  json packed = strict_json::parse(text, kWhat);
  if (!packed.is_object()) fail("is " + strict_json::excerpt(packed) + ", must be a JSON object");
  each(extras, row, config, [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    const auto found = packed.find(name);
    if (found == packed.end()) return;
    if (!found->is_array() ||
        !std::all_of(found->begin(), found->end(), [](const json& v) { return v.is_number(); }))
      fail(std::string(name) + " is " + strict_json::excerpt(*found) + ", must be a list of numbers");
    if (static_cast<int64_t>(found->size()) != c10::multiply_integers(shape))
      fail(std::string(name) + " has " + std::to_string(found->size()) + " elements, must have " +
           std::to_string(c10::multiply_integers(shape)) + ": this is a model of another size");
    tensor = at::tensor(found->get<std::vector<float>>()).view(shape);
    packed.erase(found);
  });
  if (const auto found = packed.find(kFiles); found != packed.end()) {
    for (const auto& [name, content] : found->items()) {
      if (!tokenizer::is_folder_file(name) || !content.is_string())
        fail(std::string(kFiles) + " has " + strict_json::excerpt(name) +
             ", which is no file of a tokenizer");
      extras.files[name] = content;
    }
    packed.erase(found);
  }
  if (!packed.empty()) fail(packed.begin().key() + " is nothing that this version knows");
  return extras;
}

Config read_config(const Architecture& row, const std::string& path) {
  const hugging_face::ConfigFile file(path);
  file.type({row.type});
  Config config = row.theirs;
  config.label = heads::read_label(file, row.classes);
  if (config.label && config.label->are_several)
    file.fail("problem_type", "several labels of a protein at once are not supported");
  config = file.checked(Checked{row, row.read(file, config)}).config;
  if (row.read_more != nullptr) row.read_more(file, config);
  return config;
}

adapters::AdaptedModel adapted_model(const Architecture& row, const Config& config) {
  const hugging_face::NameMap map = name_map(row);
  adapters::AdaptedModel model{.targets = row.lora_targets(config),
                               .others = {"lm_head.dense"},
                               .pieces = map.pieces,
                               .task_type = "",
                               .head = map.head,
                               .tied_to = map.tied_to};
  if (row.names.decoder != nullptr) model.others.emplace_back(row.names.decoder);
  if (!config.label) return model;
  model.others = {row.names.of_residues, "classifier.dense", "classifier.out_proj"};
  model.value = heads::as_in_folder(config.label);
  model.as_ours = heads::as_learnt(config.label);
  model.head = model.tied_to = "";
  return model;
}

Extras import_folder(const std::string& path, const Architecture& row, const Config& config,
                     ParameterRegistry& parameters) {
  const Config theirs = read_config(row, path + "/config.json");
  hugging_face::Differences differences;
  row.compare(concat("task.", row.name, "."), config, theirs, differences);
  protein::compare_label(differences, config.label, theirs.label);
  differences.raise(path);
  Extras extras;
  extras.files = row.read_tokenizer(path);
  hugging_face::NameMap map = name_map(row);
  if (config.label) map = heads::with_label_head(std::move(map), *config.label, theirs.label.has_value());
  Extras::each(extras, row, config,
               [&](const char* name, const at::Tensor&, const std::vector<int64_t>& shape) {
                 map.optional.emplace_back(name, shape);
               });
  const auto weights = hugging_face::import_weights(path, parameters, map);
  Extras::each(extras, row, config,
               [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
                 tensor = weights->find(name, shape);
               });
  for (const std::string& name : weights->names()) {
    if (!row.has_extras || !name.ends_with(kOldFrequencies)) continue;
    const at::Tensor frequencies = weights->find(name, {config.head_width() / 2});
    if (!extras.frequencies.defined()) extras.frequencies = frequencies;
    if (!frequencies.equal(extras.frequencies))
      throw std::runtime_error(path + ": " + name +
                               " differs from those of other layers: only one set of rotary "
                               "frequencies is supported");
  }
  if (extras.frequencies.defined() &&
      extras.frequencies.equal(transformer::rotary_frequencies(config.head_width())))
    extras.frequencies = at::Tensor();
  return extras;
}

void export_folder(const std::string& path, const Architecture& row, const Config& config,
                   const ParameterRegistry& parameters, const Extras& extras,
                   const std::function<at::Tensor(const ParameterRegistry::Declared&)>& value) {
  Extras all = extras;
  if (!all.frequencies.defined()) all.frequencies = transformer::rotary_frequencies(config.head_width());
  std::vector<std::pair<std::string, at::Tensor>> others;
  Extras::each(all, row, config,
               [&](const char* name, const at::Tensor& tensor, const std::vector<int64_t>& shape) {
                 others.emplace_back(name, tensor.defined() ? tensor : at::zeros(shape));
               });
  hugging_face::export_weights(
      path, parameters, {.pieces = name_map(row).pieces, .value = heads::as_in_folder(config.label, value)},
      others);
  json values = row.json(config);
  if (config.label) values.update(heads::label_values(*config.label, row.classes));
  hugging_face::write_text(path + "/config.json", values.dump(2) + "\n");
  row.write_tokenizer(path);
  tokenizer::write_tokenizer_files(extras.files, path);
}

}  // namespace pipeline::encoder
