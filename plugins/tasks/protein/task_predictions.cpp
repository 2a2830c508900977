#include <algorithm>

#include <ATen/core/Tensor.h>
#include <pipeline/numbers.hpp>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/tasks/protein/label_files.hpp"
#include "plugins/tasks/protein/pack.hpp"
#include "plugins/tasks/protein/predictions.hpp"
#include "plugins/tasks/protein/task.hpp"

namespace pipeline::tasks::protein {
std::vector<std::string> ProteinTask::prediction_columns() {
  if (labels_.is_wanted() && config().predict.wants("scores")) return label_columns(*label_form());
  if (!config().predict.wants("scores")) return {"residues", "known"};
  return {"residues", "known", "recovery", "perplexity", "entropy"};
}

std::vector<float> ProteinTask::predict_all(const proteins::Sample& sample, Split split, uint64_t id) {
  std::vector<float> result(sample.size() * residues::kAminoAcidCount);
  proteins::ScoringGroups groups = groups_of(sample, split, id);
  const std::vector<proteins::ScoringPass> passes =
      proteins::scoring_passes(0, groups, config().data.max_residues);
  ScoredSample scored(sample, std::move(groups), packing());
  const auto rows_of = [&](size_t i) { return int64_t{passes[i].count}; };
  in_passes(passes.size(), rows_of, [&](size_t begin, size_t end) {
    Packer packer(packing());
    std::vector<size_t> places;  // in the sample, of each target
    for (size_t i = begin; i < end; ++i) {
      const proteins::Masking masking = scored.pack(packer, passes[i]);
      for (size_t n = 0; n < masking.is_target.size(); ++n)
        if (masking.is_target[n] != 0) places.push_back(static_cast<size_t>(passes[i].first) + n);
    }
    const pipeline::protein::Outputs outputs = model().outputs(batch_on(device(), packer.finish()), pass());
    const at::Tensor log_p = outputs.log_probabilities.to(at::kCPU).contiguous();
    for (size_t t = 0; t < places.size(); ++t)
      std::copy_n(log_p.const_data_ptr<float>() + t * residues::kAminoAcidCount,
                  size_t{residues::kAminoAcidCount}, &result[places[t] * residues::kAminoAcidCount]);
  });
  return result;
}

void ProteinTask::predict(const ProteinBatch& batch, const PredictionSink& sink) {
  const PredictConfig& options = config().predict;
  if (options.wants("embeddings") || options.wants("residue_embeddings")) embed(batch, sink);
  if (labels_.is_wanted() && options.wants("scores")) return predict_labels(batch, sink);
  for (const uint64_t id : batch.ids) {
    if (!options.mutations.empty()) score_variants(batch.split, id, sink);
    if (options.wants("scores")) {
      score(batch.split, id, sink);
    } else {
      const proteins::SplitRow row = dataset_->row(batch.split, id);
      sink.row(id, {std::to_string(row.residues), std::to_string(row.known)});
    }
  }
}

void ProteinTask::score(Split split, uint64_t id, const PredictionSink& sink) {
  constexpr int kDigits = 4;
  const std::string file = dataset_->file(split, id);
  const proteins::Sample sample = dataset_->sample(split, id);
  const Predicted predicted{.sample = sample,
                            .chain_names = dataset_->chain_names(split, id),
                            .log_p = predict_all(sample, split, id)};
  require_numbers(std::span<const float>(predicted.log_p), dataset_->name(split, id), "perplexity");
  sink.file(id, file + "-residues.csv", residue_table(predicted, config().predict.top));
  sink.file(id, file + "-mutations.csv", mutation_table(predicted));
  sink.append(id, "mutations.csv", mutation_rows(predicted, dataset_->name(split, id), id == 0));
  if (config().predict.pictures)
    sink.file(id, file + "-mutations.svg", mutation_picture(predicted, dataset_->name(split, id)));
  const Summary summary = summarize(predicted);
  sink.row(id, {std::to_string(summary.residues), std::to_string(summary.known),
                figures::decimal(summary.recovery, kDigits), figures::decimal(summary.perplexity, kDigits),
                figures::decimal(summary.entropy, kDigits)});
}

}  // namespace pipeline::tasks::protein
