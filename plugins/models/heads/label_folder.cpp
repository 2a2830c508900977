#include "heads/label_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"

namespace pipeline::heads {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Piece;
using nlohmann::json;

constexpr const char *kOfSamples = "ForSequenceClassification", *kOfParts = "ForTokenClassification",
                     *kOfPairs = "ForContactPrediction";
constexpr const char* kAdapterFile = "labels.json";
constexpr const char *kNumbers = "regression", *kOneClass = "single_label_classification",
                     *kSeveral = "multi_label_classification";

// The head's last layer gives numbers in the folder, and here what they are learnt as.
bool gives_numbers(const std::string& parameter, const std::optional<LabelForm>& form) {
  if (!form || !form->are_numbers || !is_of_label_head(parameter)) return false;
  return form->of == LabelForm::Of::kParts || !parameter.starts_with("classifier.dense.");
}

}  // namespace

bool is_of_label_head(const std::string& parameter) {
  return parameter.starts_with("classifier.") || parameter.starts_with("score.") ||
         parameter.starts_with("pair_head.");
}

std::optional<LabelForm> read_label(const ConfigFile& file, const std::string& name) {
  std::vector<std::string> architectures;
  file.read("architectures", architectures);
  const std::string architecture = architectures.empty() ? "" : architectures.front();
  LabelForm form;
  if (architecture == name + kOfPairs) return LabelForm{.of = LabelForm::Of::kPairs};
  if (architecture != name + kOfSamples && architecture != name + kOfParts) return std::nullopt;
  form.of = architecture == name + kOfSamples ? LabelForm::Of::kSamples : LabelForm::Of::kParts;
  form.classes = {"LABEL_0", "LABEL_1"};  // transformers' default
  if (const json* const names = file.find("id2label")) {
    form.classes.clear();
    for (size_t i = 0; names->is_object() && i < names->size(); ++i) {
      const auto found = names->find(std::to_string(i));
      if (found == names->end() || !found->is_string())
        file.fail("id2label", "must have the name of each class by its number, from \"0\" on");
      form.classes.push_back(found->get<std::string>());
    }
    if (form.classes.empty()) file.fail("id2label", "must be an object with the name of each class");
  }
  std::string kind = form.classes.size() == 1 ? kNumbers : kOneClass;
  file.read("problem_type", kind);
  form.are_numbers = kind == kNumbers;
  form.are_several = kind == kSeveral && form.of == LabelForm::Of::kSamples;
  if (!form.are_numbers && !form.are_several && kind != kOneClass)
    file.fail("problem_type", concat("only \"", kNumbers, "\", \"", kOneClass, "\" and, of whole samples, \"",
                                     kSeveral, "\" are supported"));
  if (form.are_numbers && form.classes.size() != 1)
    file.fail("problem_type", concat("with ", form.classes.size(), " labels: only one number is supported"));
  if (form.are_numbers) form.classes.clear();
  return form;
}

bool has_default_names(const LabelForm& form) {
  for (size_t i = 0; i < form.classes.size(); ++i)
    if (form.classes[i] != concat("LABEL_", i)) return false;
  return !form.classes.empty();
}

json label_values(const LabelForm& form, const std::string& name) {
  using Of = LabelForm::Of;
  json values;
  values["architectures"] = {name + (form.of == Of::kSamples ? kOfSamples
                                     : form.of == Of::kParts ? kOfParts
                                                             : kOfPairs)};
  if (form.of == Of::kPairs) return values;
  values["problem_type"] = form.are_numbers ? kNumbers : form.are_several ? kSeveral : kOneClass;
  const std::vector<std::string> names =
      form.are_numbers ? std::vector<std::string>{"LABEL_0"} : form.classes;
  values["id2label"] = values["label2id"] = json::object();
  for (size_t i = 0; i < names.size(); ++i) {
    values["id2label"][std::to_string(i)] = names[i];
    values["label2id"][names[i]] = i;
  }
  return values;
}

void write_adapter_label(const std::string& adapter, const LabelForm& form, const std::string& name) {
  hugging_face::write_text(adapter + "/" + kAdapterFile, label_values(form, name).dump(2) + "\n");
}

std::optional<LabelForm> read_adapter_label(const std::string& adapter, const std::string& name) {
  const std::string path = adapter + "/" + kAdapterFile;
  if (adapter.empty() || !std::filesystem::exists(path)) return std::nullopt;
  return read_label(ConfigFile(path), name);
}

bool adapter_predicts_labels(const std::string& adapter) {
  const auto names = safetensors::Folder::open(adapter, "adapter_model.safetensors").names();
  return std::ranges::any_of(names, [](const std::string& name) {
    return std::ranges::any_of(std::array{".classifier.", ".score.", ".pair_head."},
                               [&](const char* head) { return name.find(head) != std::string::npos; });
  });
}

std::function<at::Tensor(const ParameterRegistry::Declared&)> as_in_folder(
    const std::optional<LabelForm>& form,
    std::function<at::Tensor(const ParameterRegistry::Declared&)> value) {
  if (!form || !form->are_numbers) return value;
  return [form = *form, value = std::move(value)](const ParameterRegistry::Declared& parameter) {
    const at::Tensor own = value ? value(parameter) : parameter.value();
    if (!gives_numbers(parameter.name, form)) return own;
    const bool is_bias = parameter.name.ends_with(".bias");
    return own.detach().to(at::kCPU, at::kFloat) * form.deviation + (is_bias ? form.mean : 0);
  };
}

std::function<void(const Parameter&, at::Tensor&)> as_learnt(const std::optional<LabelForm>& form) {
  if (!form || !form->are_numbers) return nullptr;
  return [form = *form](const Parameter& parameter, at::Tensor& value) {
    if (!gives_numbers(parameter.name, form)) return;
    value.sub_(parameter.name.ends_with(".bias") ? form.mean : 0).div_(form.deviation);
  };
}

hugging_face::NameMap with_label_head(hugging_face::NameMap map, const LabelForm& form, bool has_head) {
  map.head = map.tied_to = "";
  map.as_ours = as_learnt(form);
  map.pieces = [pieces = std::move(map.pieces), has_head](const Parameter& parameter) {
    return is_of_label_head(parameter.name) && !has_head ? std::vector<Piece>() : pieces(parameter);
  };
  map.plain_name = [plain = std::move(map.plain_name)](const std::string& name) {
    return name.starts_with("lm_head.") ? "" : plain ? plain(name) : name;
  };
  return map;
}

}  // namespace pipeline::heads
