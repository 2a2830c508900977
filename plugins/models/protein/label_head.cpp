#include "plugins/models/protein/label_head.hpp"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

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

}  // namespace

std::string objective_of(const std::optional<LabelForm>& form) {
  return !form                               ? residues::kMasked
         : form->of == LabelForm::Of::kPairs ? residues::kContacts
         : form->are_numbers                 ? residues::kRegression
                                             : residues::kClassification;
}

std::string per_of(const LabelForm& form) { return form.of == LabelForm::Of::kSamples ? "chain" : "residue"; }

LabelHead::LabelHead(ParameterRegistry& parameters, const LabelForm& form, int64_t width, double deviation,
                     const char* of_residues)
    : form_(form) {
  const auto add = [&](const char* name, int64_t outputs) {
    return transformer::add_linear(parameters, name, width, outputs, 0, deviation);
  };
  switch (form.of) {
    case LabelForm::Of::kSamples:
      dense_ = add("classifier.dense", width);
      out_ = add("classifier.out_proj", form.outputs());
      break;
    case LabelForm::Of::kParts:
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
  return transformer::total(
      heads::row_losses(form_, outputs, form_.are_numbers ? batch.values : batch.targets),
      outputs.scalar_type());
}

void compare_label(hugging_face::Differences& differences, const std::optional<LabelForm>& ours,
                   const std::optional<LabelForm>& theirs) {
  if (!theirs) return;
  differences.compare("task.objective", objective_of(ours), objective_of(theirs));
  if (!ours || ours->of == LabelForm::Of::kPairs) return;
  differences.compare("task.label.per", per_of(*ours), per_of(*theirs));
  differences.compare("task.label.classes", ours->classes, theirs->classes);
}

bool predicts_labels(const std::string& folder) {
  const hugging_face::ConfigFile file(folder + "/config.json");
  return heads::read_label(file, file.type({"esm", "esmc"}) == "esm" ? "Esm" : "Esmc").has_value();
}

}  // namespace pipeline::protein
