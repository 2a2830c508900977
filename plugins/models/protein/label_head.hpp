// What predicts labels from what a model's layers give: parameters beside the model's, in unit 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "heads/label_folder.hpp"
#include "hugging_face/config_file.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "transformer/blocks.hpp"

namespace pipeline::protein {

using heads::LabelForm;

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
  // x: (T, C) of the parameters' type, normalised, of the tokens <cls> or of the residues that have a label;
  // of pairs of all residues. Gives (T, outputs), or of pairs (sum of L x L), fp32: logits, or numbers as
  // they are learnt. Differentiable.
  at::Tensor outputs(const at::Tensor& x, const PackedProteins& batch, const transformer::Dropout& dropout,
                     at::ScalarType compute) const;
  // The sum over labels of the cross-entropy in nats, or of the squared error in units of deviation^2; for
  // contacts, over chains, of the mean over their pairs.
  at::Tensor loss(const at::Tensor& outputs, const PackedProteins& batch) const;

 private:
  at::Tensor pairs(const at::Tensor& x, const PackedProteins& batch, at::ScalarType compute) const;

  LabelForm form_;
  transformer::Linear dense_, out_, left_, right_;
  at::Tensor separation_;  // (kBins, 1)
};

// The task's options that a form stands for: task.objective, and task.label.per.
std::string objective_of(const std::optional<LabelForm>& form);
std::string per_of(const LabelForm& form);

// To be called where the folder has a head.
void compare_label(hugging_face::Differences& differences, const std::optional<LabelForm>& ours,
                   const std::optional<LabelForm>& theirs);

// Whether the folder of an ESM-2 or ESM C has a head for labels.
bool predicts_labels(const std::string& folder);

}  // namespace pipeline::protein
