// What predicts labels from what a model's layers give: parameters beside the model's, in unit 0.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "transformer/blocks.hpp"

namespace pipeline::protein {

// Which labels a head predicts, and of what.
struct LabelForm {
  enum class Of { kChains, kResidues, kPairs } of = Of::kChains;
  bool are_numbers = false;
  std::vector<std::string> classes = {};  // of classification, by number
  double mean = 0, deviation = 1;         // of numbers: the head's output is (number - mean) / deviation

  bool operator==(const LabelForm&) const = default;
  // The number that `learnt` stands for, in double: float32 would lose what is small beside the mean.
  double number(float learnt) const { return static_cast<double>(learnt) * deviation + mean; }
  int64_t outputs() const { return classes.empty() ? 1 : static_cast<int64_t>(classes.size()); }
};

// A head for labels. For chains as in EsmForSequenceClassification, two layers over the vector of <cls>:
//
//   classifier.out_proj(tanh(classifier.dense(x)))
//
// for residues as in EsmForTokenClassification, one: classifier(x), or in ESM C score(x); for pairs i, j of a
// chain, with vectors l = pair_head.left(x) and r = pair_head.right(x) of kPairWidth, the log-odds
//
//   (l_i . r_j + l_j . r_i) / (2 sqrt(kPairWidth)) + pair_head.separation[how far apart]
class LabelHead {
 public:
  static constexpr int64_t kPairWidth = 64;

  // of_residues: what transformers calls that head.
  LabelHead(ParameterRegistry& parameters, const LabelForm& form, int64_t width, double deviation,
            const char* of_residues = "classifier");

  const LabelForm& form() const { return form_; }
  // Floating-point operations of the forward pass, over so many rows of `width` and so many pairs of them.
  double products(double rows, double pairs, double width) const;
  // x: (T, C) fp32, normalised, of the tokens <cls> or of the residues that have a label; of pairs of all
  // residues. Gives (T, outputs), or of pairs (sum of L x L), fp32: logits, or numbers as they are learnt.
  // Differentiable.
  at::Tensor outputs(const at::Tensor& x, const PackedProteins& batch, const transformer::Dropout& dropout,
                     at::ScalarType compute) const;
  // The sum over labels of the cross-entropy in nats, or of the squared error in units of deviation^2; for
  // contacts, over chains, of the mean over their pairs.
  at::Tensor loss(const at::Tensor& outputs, const PackedProteins& batch) const;
  // Outputs as they are reported: log-probabilities of classes, numbers as they are learnt, log-odds of
  // contacts. Not differentiable.
  at::Tensor told(const at::Tensor& outputs) const;

 private:
  at::Tensor pairs(const at::Tensor& x, const PackedProteins& batch, at::ScalarType compute) const;

  LabelForm form_;
  transformer::Linear dense_, out_, left_, right_;
  at::Tensor separation_;  // (kBins, 1)
};

// The task's options that a form stands for: task.objective, and task.label.per.
std::string objective_of(const std::optional<LabelForm>& form);
std::string per_of(const LabelForm& form);

// Whether a parameter is the head's, by name.
bool is_of_label_head(const std::string& parameter);

// Heads for labels in folders of transformers. `name`: of its classes, "Esm" of EsmForSequenceClassification
// and EsmForTokenClassification. It has none for pairs, and loads what we write as its EsmModel.
// The label head in config.json; nothing where there is none. Throws an Error (PL_ERROR_CONFIG) for one that
// we do not compute.
std::optional<LabelForm> read_label(const hugging_face::ConfigFile& file, const std::string& name);
void write_label(const LabelForm& form, const std::string& name, nlohmann::json& values);
// To be called where the folder has a head.
void compare_label(hugging_face::Differences& differences, const std::optional<LabelForm>& ours,
                   const std::optional<LabelForm>& theirs);

// An adapter's folder has the label head beside it, in a file of ours: PEFT's says nothing of labels.
void write_adapter_label(const std::string& adapter, const LabelForm& form, const std::string& name);
std::optional<LabelForm> read_adapter_label(const std::string& adapter, const std::string& name);

// Whether the folder of an ESM-2 or ESM C has a head for labels, or PEFT's of an adapter.
bool predicts_labels(const std::string& folder);
bool adapter_predicts_labels(const std::string& adapter);

// A folder's head of numbers gives them as they are, and ours as they are learnt: what is written of a
// parameter, whose value is `value`, or its own; and what becomes of one that is read.
std::function<at::Tensor(const ParameterRegistry::Declared&)> as_in_folder(
    const std::optional<LabelForm>& form,
    std::function<at::Tensor(const ParameterRegistry::Declared&)> value = nullptr);
std::function<void(const Parameter&, at::Tensor&)> as_learnt(const std::optional<LabelForm>& form);

// The map of a model with an output head, for one with a head for labels: the folder may have either.
hugging_face::NameMap with_label_head(hugging_face::NameMap map, const LabelForm& form,
                                      const std::string& folder);

}  // namespace pipeline::protein
