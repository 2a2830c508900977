// Mutations of the user's own, scored as Meier et al. do ("Language models enable zero-shot prediction of the
// effects of mutations on protein function", NeurIPS 2021, for ESM-1v). T are the residues that a variant
// changes, x the sequence:
//
//   masked             sum over T of ln p(mutant | x without T) - ln p(wild type | x without T)
//   wild-type          sum over T of ln p(mutant | x) - ln p(wild type | x), nothing masked
//   pseudo-perplexity  the sum over all residues of ln p(residue | the others), of the mutant, less that of
//                      the wild type
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/protein/objective.hpp"
#include "plugins/tasks/protein/variants.hpp"

namespace pipeline::tasks::protein {

// By the model's answers to questions about one sample. Each variant is a list of substitutions, and has a
// score.
using Substitutions = std::vector<Substitution>;
std::vector<double> marginals(const proteins::Sample& sample, const std::vector<Substitutions>& variants,
                              bool is_masked, Packing packing, const Inference& inference);
std::vector<double> pseudo_likelihoods(const proteins::Sample& sample,
                                       const std::vector<Substitutions>& variants, Packing packing,
                                       const Inference& inference);

// The table that task.predict.mutations names, as "variants.csv" with scores.
class VariantScores {
 public:
  // dataset: it outlives the object.
  VariantScores(const Setting& setting, const proteins::Dataset& dataset)
      : setting_(setting), dataset_(dataset) {}

  void predict(const ProteinBatch& batch, const Inference& inference, const PredictionSink& sink);
  // Says what has no score, and how the scores rank beside what was measured.
  void finish(Split split, const std::filesystem::path& folder, const PredictionSink& sink);

 private:
  const PredictConfig& options() const { return setting_.config.predict; }
  const Variants& variants();
  std::vector<const Variant*> variants_of(Split split, uint64_t id);
  std::string rows_of(Split split, uint64_t id, const Inference& inference);
  std::string rows_of_others(Split split);
  std::string proposed_offset(Split split);

  const Setting& setting_;
  const proteins::Dataset& dataset_;
  std::optional<Variants> variants_;  // once they are asked for
};

}  // namespace pipeline::tasks::protein
