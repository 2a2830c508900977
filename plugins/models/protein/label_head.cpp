#include "plugins/models/protein/label_head.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "transformer/dropout.hpp"
#include "transformer/embedding.hpp"
#include "transformer/gemm.hpp"
#include "transformer/layer.hpp"

namespace pipeline::protein {
namespace {

// A bin for each number of positions below the last, which stands for all that are further apart.
constexpr int64_t kBins = 64;
// Log-odds of contacts before anything is learnt: some 3 in 100 pairs are.
constexpr double kRarely = -3.5;

using hugging_face::ConfigFile;
using hugging_face::Piece;
using nlohmann::json;

constexpr const char *kOfChains = "ForSequenceClassification", *kOfResidues = "ForTokenClassification",
                     *kOfPairs = "ForContactPrediction";
constexpr const char* kAdapterFile = "labels.json";
constexpr const char *kNumbers = "regression", *kOneClass = "single_label_classification";

// The head's last layer gives numbers in the folder, and here what they are learnt as.
bool gives_numbers(const std::string& parameter, const std::optional<LabelForm>& form) {
  if (!form || !form->are_numbers || !is_of_label_head(parameter)) return false;
  return form->of == LabelForm::Of::kResidues || parameter.starts_with("classifier.out_proj.");
}

}  // namespace

std::string objective_of(const std::optional<LabelForm>& form) {
  return !form                               ? residues::kMasked
         : form->of == LabelForm::Of::kPairs ? residues::kContacts
         : form->are_numbers                 ? residues::kRegression
                                             : residues::kClassification;
}

std::string per_of(const LabelForm& form) { return form.of == LabelForm::Of::kChains ? "chain" : "residue"; }

bool is_of_label_head(const std::string& parameter) {
  return parameter.starts_with("classifier.") || parameter.starts_with("score.") ||
         parameter.starts_with("pair_head.");
}

LabelHead::LabelHead(ParameterRegistry& parameters, const LabelForm& form, int64_t width, double deviation,
                     const char* of_residues)
    : form_(form) {
  const auto add = [&](const char* name, int64_t outputs) {
    return transformer::add_linear(parameters, name, width, outputs, 0, deviation);
  };
  switch (form.of) {
    case LabelForm::Of::kChains:
      dense_ = add("classifier.dense", width);
      out_ = add("classifier.out_proj", form.outputs());
      break;
    case LabelForm::Of::kResidues:
      out_ = add(of_residues, form.outputs());
      break;
    case LabelForm::Of::kPairs:
      left_ = add("pair_head.left", kPairWidth);
      right_ = add("pair_head.right", kPairWidth);
      separation_ = parameters.add({.name = "pair_head.separation", .shape = {kBins, 1}, .decay = false},
                                   constant(kRarely));
  }
}

double LabelHead::products(double rows, double pairs, double width) const {
  constexpr auto kPair = static_cast<double>(kPairWidth);
  if (form_.of == LabelForm::Of::kPairs) return 2 * (2 * rows * width * kPair + pairs * kPair);
  const double dense = dense_.weight.defined() ? width * width : 0;
  return 2 * rows * (dense + width * static_cast<double>(form_.outputs()));
}

at::Tensor LabelHead::outputs(const at::Tensor& x, const PackedProteins& batch,
                              const transformer::Dropout& dropout, at::ScalarType compute) const {
  const auto dropped = [&](const at::Tensor& t, uint64_t place) {
    return dropout.active()
               ? transformer::dropped(t, {dropout.p, transformer::dropout_key(dropout.key, place)})
               : t;
  };
  if (form_.of == LabelForm::Of::kPairs) return pairs(x, batch, compute);
  at::Tensor h = dropped(x, 0).to(compute);
  if (dense_.weight.defined()) h = dropped(at::tanh(transformer::linear(h, dense_)), 1);
  return transformer::linear(h, out_).to(at::kFloat);
}

at::Tensor LabelHead::pairs(const at::Tensor& x, const PackedProteins& batch, at::ScalarType compute) const {
  const at::Tensor h = x.to(compute), left = transformer::linear(h, left_),
                   right = transformer::linear(h, right_);
  std::vector<at::Tensor> all;
  for (int64_t s = 0; s < batch.chain_rows.sequences(); ++s) {
    const int64_t first = batch.chain_rows.start(s), length = batch.chain_rows.length(s);
    const at::Tensor one_way =
        transformer::linear(left.narrow(0, first, length),
                            {.weight = right.narrow(0, first, length).t().contiguous(), .bias = {}})
            .to(at::kFloat);
    const at::Tensor places = batch.positions.narrow(0, first, length);
    const at::Tensor apart = (places.unsqueeze(0) - places.unsqueeze(1)).abs_().clamp_max_(kBins - 1);
    all.push_back((one_way + one_way.t()).mul(0.5 / std::sqrt(static_cast<double>(kPairWidth))).view({-1}) +
                  transformer::look_up(separation_, apart.view({-1})).view({-1}));
  }
  return at::cat(all);
}

at::Tensor LabelHead::loss(const at::Tensor& outputs, const PackedProteins& batch) const {
  if (form_.of == LabelForm::Of::kPairs) {
    at::Tensor sum = at::zeros({}, outputs.options());
    int64_t begin = 0;
    for (int64_t s = 0; s < batch.chain_rows.sequences(); ++s) {
      const int64_t length = batch.chain_rows.length(s), size = length * length;
      const at::Tensor labels = batch.pair_labels.narrow(0, begin, size),
                       counts = labels.lt(residues::kNoPair).to(at::kFloat);
      const at::Tensor terms = at::binary_cross_entropy_with_logits(
          outputs.narrow(0, begin, size), labels.eq(residues::kContact).to(at::kFloat), counts, {},
          at::Reduction::None);
      // Row by row: sums of rows do not depend on the number of threads.
      sum = sum + terms.view({length, length}).sum(1).sum() / counts.sum().clamp_min(1);
      begin += size;
    }
    return sum;
  }
  if (form_.are_numbers)
    return transformer::total((outputs.view({-1}) - batch.values).square(), outputs.scalar_type());
  return at::cross_entropy_loss(outputs, batch.targets, {}, at::Reduction::Sum);
}

at::Tensor LabelHead::told(const at::Tensor& outputs) const {
  const at::NoGradGuard no_grad;
  return form_.classes.empty() ? outputs : at::log_softmax(outputs, 1);
}

std::optional<LabelForm> read_label(const ConfigFile& file, const std::string& name) {
  std::vector<std::string> architectures;
  file.read("architectures", architectures);
  const std::string architecture = architectures.empty() ? "" : architectures.front();
  LabelForm form;
  if (architecture == name + kOfPairs) return LabelForm{.of = LabelForm::Of::kPairs};
  if (architecture != name + kOfChains && architecture != name + kOfResidues) return std::nullopt;
  form.of = architecture == name + kOfChains ? LabelForm::Of::kChains : LabelForm::Of::kResidues;
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
  if (kind != kNumbers && kind != kOneClass)
    file.fail("problem_type", concat("only \"", kNumbers, "\" and \"", kOneClass, "\" are supported"));
  form.are_numbers = kind == kNumbers;
  if (form.are_numbers && form.classes.size() != 1)
    file.fail("problem_type", concat("with ", form.classes.size(), " labels: only one number is supported"));
  if (form.are_numbers) form.classes.clear();
  return form;
}

void write_label(const LabelForm& form, const std::string& name, json& values) {
  using Of = LabelForm::Of;
  values["architectures"] = {name + (form.of == Of::kChains     ? kOfChains
                                     : form.of == Of::kResidues ? kOfResidues
                                                                : kOfPairs)};
  if (form.of == Of::kPairs) return;
  values["problem_type"] = form.are_numbers ? kNumbers : kOneClass;
  const std::vector<std::string> names =
      form.are_numbers ? std::vector<std::string>{"LABEL_0"} : form.classes;
  values["id2label"] = values["label2id"] = json::object();
  for (size_t i = 0; i < names.size(); ++i) {
    values["id2label"][std::to_string(i)] = names[i];
    values["label2id"][names[i]] = i;
  }
}

void compare_label(hugging_face::Differences& differences, const std::optional<LabelForm>& ours,
                   const std::optional<LabelForm>& theirs) {
  if (!theirs) return;
  differences.compare("task.objective", objective_of(ours), objective_of(theirs));
  if (!ours || ours->of == LabelForm::Of::kPairs) return;
  differences.compare("task.label.per", per_of(*ours), per_of(*theirs));
  differences.compare("task.label.classes", ours->classes, theirs->classes);
}

void write_adapter_label(const std::string& adapter, const LabelForm& form, const std::string& name) {
  json values;
  write_label(form, name, values);
  hugging_face::write_text(adapter + "/" + kAdapterFile, values.dump(2) + "\n");
}

std::optional<LabelForm> read_adapter_label(const std::string& adapter, const std::string& name) {
  const std::string path = adapter + "/" + kAdapterFile;
  if (adapter.empty() || !std::filesystem::exists(path)) return std::nullopt;
  return read_label(ConfigFile(path), name);
}

bool predicts_labels(const std::string& folder) {
  const ConfigFile file(folder + "/config.json");
  return read_label(file, file.type({"esm", "esmc"}) == "esm" ? "Esm" : "Esmc").has_value();
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

hugging_face::NameMap with_label_head(hugging_face::NameMap map, const LabelForm& form,
                                      const std::string& folder) {
  const bool has_head = predicts_labels(folder);
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

}  // namespace pipeline::protein
