// The objective of masked residues.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <ATen/core/Tensor.h>
#include <pipeline/numbers.hpp>

#include "plugins/data/proteins/masking.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/tasks/protein/objective.hpp"
#include "plugins/tasks/protein/predictions.hpp"
#include "plugins/tasks/protein/scores.hpp"

namespace pipeline::tasks::protein {
namespace {

class MaskedResidues : public Objective {
 public:
  using Objective::Objective;

  void open(const proteins::Dataset& dataset, const proteins::Frequencies& background) override {
    lend(dataset);
    background_ = &background;
    std::string scored;
    for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (!is_scored(split) || dataset.size(split) == 0) continue;
      passes_[static_cast<size_t>(split)] = passes_of(split);
      scored += concat(scored.empty() ? "" : ", ", proteins::name_of(split), " in ", sample_count(split));
    }
    // What the host counts as samples in an evaluation, and sets evaluate.max_samples against.
    if (!scored.empty())
      context().info(
          "scoring    masks each residue once, a part at a time: these are an evaluation's samples, ",
          scored);
  }

  uint64_t sample_count(Split split) const override {
    if (!is_scored(split)) return Objective::sample_count(split);
    const auto& passes = passes_[static_cast<size_t>(split)];
    return passes ? passes->size() : 0;
  }

  int64_t sample_length(Split split, uint64_t id) const override {
    return is_scored(split) ? pass_of(split, id).count : Objective::sample_length(split, id);
  }

  std::string sample_name(Split split, uint64_t id) const override {
    if (!is_scored(split)) return Objective::sample_name(split, id);
    const proteins::ScoringPass pass = pass_of(split, id);
    return concat(Objective::sample_name(split, pass.sample), " from ", pass.first, ", masking ", pass.group);
  }

  ProteinBatch make_batch(const LoadRequest& request) const override {
    ProteinBatch batch = batch_of(request);
    Packer packer(packing_of(config()));
    std::map<uint64_t, ScoredSample> samples;  // passes over one often come together
    for (const uint64_t id : request.ids) {
      if (!is_scored(request.split)) {
        add_for_training(packer, batch, request, id);
        continue;
      }
      const proteins::ScoringPass pass = pass_of(request.split, id);
      auto found = samples.find(pass.sample);
      if (found == samples.end()) {
        proteins::Sample sample = dataset().sample(request.split, pass.sample);
        proteins::ScoringGroups groups = groups_of(sample, request.split, pass.sample);
        found = samples.try_emplace(pass.sample, std::move(sample), std::move(groups), packing_of(config()))
                    .first;
      }
      batch.add_targets(found->second.pack(packer, pass),
                        dataset().row(request.split, pass.sample).cluster_key);
    }
    batch.packed = packer.finish();
    require_ids(batch.packed.tokens, config().sees_structure() ? residues::kTokenCount : residues::kCodeCount,
                "token");
    require_ids(batch.packed.targets, residues::kAminoAcidCount, "target");
    return batch;
  }

  void evaluate(const ProteinBatch& batch, const Inference& inference,
                const EvaluationSink& sink) const override {
    Scores scores(*background_, fold_of(batch.split));
    const pipeline::protein::Outputs outputs = inference.model.outputs(batch.packed, inference.pass);
    const at::Tensor log_p = outputs.log_probabilities.to(at::kCPU).contiguous();
    const at::Tensor targets = batch.packed.targets.to(at::kCPU);
    for (int64_t t = 0; t < targets.size(0); ++t)
      scores.add({.amino_acid = static_cast<uint8_t>(targets.const_data_ptr<int64_t>()[t]),
                  .cluster = batch.target_clusters[static_cast<size_t>(t)]},
                 LogProbabilities(log_p.const_data_ptr<float>() + t * residues::kAminoAcidCount,
                                  residues::kAminoAcidCount));
    scores.send(sink, sink.purpose() == Purpose::kEvaluate);
    if (outputs.distance_loss.defined())
      sink.value("distance_loss", outputs.distance_loss.item<double>(), static_cast<double>(targets.size(0)));
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> metrics = Scores::metrics();
    if (config().hides())
      metrics.push_back({.name = "distance_loss",
                         .help = "cross-entropy of the bins of a masked residue's distances, in nats"});
    return metrics;
  }

  void report(const Report& report, const ReportSink& sink) const override {
    if (report.purpose == Purpose::kEvaluate) report_scores(report.values, sink);
  }

  std::vector<std::string> prediction_columns() const override {
    return {"residues", "known", "recovery", "perplexity", "entropy"};
  }
  void predict(const ProteinBatch& batch, const Inference& inference,
               const PredictionSink& sink) const override {
    for (const uint64_t id : batch.ids) write(batch.split, id, inference, sink);
  }

 private:
  bool is_scored(Split split) const {
    const uint32_t purpose = context().run().purpose;
    return purpose != PL_PURPOSE_PREDICT && (split != Split::kTrain || purpose != PL_PURPOSE_TRAIN);
  }

  // Groups by what the sample is, so that its neighbours in the folder do not matter.
  proteins::ScoringGroups groups_of(const proteins::Sample& sample, Split split, uint64_t id) const {
    const bool predicts = context().run().purpose == PL_PURPOSE_PREDICT;
    const int64_t wanted = predicts ? config().predict.maskings : 0;
    const uint64_t most =
        wanted > 0 ? static_cast<uint64_t>(wanted) : proteins::scoring_groups(config().mask_ratio);
    return proteins::scoring_groups_of(sample, most, context().seed("score", dataset().key(split, id)),
                                       predicts);
  }

  proteins::ScoringPasses passes_of(Split split) const {
    const uint64_t groups = proteins::scoring_groups(config().mask_ratio);
    proteins::ScoringPasses all(groups);
    for (uint64_t id = 0; id < dataset().size(split); ++id) {
      context().throw_if_cancelled();
      const proteins::SplitRow row = dataset().row(split, id);
      if (row.chains == 1 && row.residues <= config().data.max_residues && row.known >= groups)
        all.add_whole();
      else
        all.add(proteins::scoring_passes(id, groups_of(dataset().sample(split, id), split, id),
                                         config().data.max_residues));
    }
    all.finish();
    return all;
  }

  proteins::ScoringPass pass_of(Split split, uint64_t id) const {
    proteins::ScoringPass pass = (*passes_[static_cast<size_t>(split)])[id];
    if (pass.count == 0) pass.count = static_cast<int32_t>(dataset().row(split, pass.sample).residues);
    return pass;
  }

  void add_for_training(Packer& packer, ProteinBatch& batch, const LoadRequest& request, uint64_t id) const {
    const auto seed = [&](const char* what) {
      return context().seed(what, request.epoch, id, static_cast<uint64_t>(request.split));
    };
    proteins::Sample sample = dataset().sample(request.split, id);
    const proteins::DataConfig& data = config().data;
    const std::vector<int64_t> rows =
        data.crop == "spatial"
            ? proteins::crop_spatial(sample, data.max_residues, seed("crop"))
            : proteins::crop_contiguous(static_cast<int64_t>(sample.size()), data.max_residues, seed("crop"));
    const proteins::Sample kept = sample.part(rows);
    proteins::MaskingOptions options = config().mask;
    options.ratio = config().mask_ratio;
    const proteins::Masking masking = proteins::with_copies(
        proteins::mask_for_training(proteins::amino_acids_to_mask(kept), kept.chains, options, seed("mask")),
        kept);
    batch.add_targets(masking, dataset().row(request.split, id).cluster_key);
    proteins::add_noise(sample.backbone, data.noise, seed("noise"));
    packer.add(sample, rows, masking);
  }

  // The part that a split is; none where it is several, or structures of its own.
  std::optional<Fold> fold_of(Split split) const {
    const proteins::SplitConfig& options = config().split;
    if (split == Split::kTrain || (split == Split::kTest && !config().test_path.empty())) return std::nullopt;
    return Fold{.number = split == Split::kTest ? options.fold : (options.fold + 1) % options.folds,
                .count = options.folds};
  }

  // (residues, 20) log-probabilities, each residue masked once.
  std::vector<float> predict_all(const proteins::Sample& sample, Split split, uint64_t id,
                                 const Inference& inference) const {
    const Packing packing = packing_of(config());
    std::vector<float> result(sample.size() * residues::kAminoAcidCount);
    proteins::ScoringGroups groups = groups_of(sample, split, id);
    const std::vector<proteins::ScoringPass> passes =
        proteins::scoring_passes(0, groups, config().data.max_residues);
    ScoredSample scored(sample, std::move(groups), packing);
    const auto rows_of = [&](size_t i) { return int64_t{passes[i].count}; };
    inference.in_passes(passes.size(), rows_of, [&](size_t begin, size_t end) {
      Packer packer(packing);
      std::vector<size_t> places;  // in the sample, of each target
      for (size_t i = begin; i < end; ++i) {
        const proteins::Masking masking = scored.pack(packer, passes[i]);
        for (size_t n = 0; n < masking.is_target.size(); ++n)
          if (masking.is_target[n] != 0) places.push_back(static_cast<size_t>(passes[i].first) + n);
      }
      const at::Tensor log_p = inference.outputs(packer).log_probabilities.to(at::kCPU).contiguous();
      for (size_t t = 0; t < places.size(); ++t)
        std::copy_n(log_p.const_data_ptr<float>() + t * residues::kAminoAcidCount,
                    size_t{residues::kAminoAcidCount}, &result[places[t] * residues::kAminoAcidCount]);
    });
    return result;
  }

  void write(Split split, uint64_t id, const Inference& inference, const PredictionSink& sink) const {
    constexpr int kDigits = 4;
    const PredictConfig& options = config().predict;
    const std::string file = dataset().file(split, id), name = dataset().name(split, id);
    const proteins::Sample sample = dataset().sample(split, id);
    const Predicted predicted{.sample = sample,
                              .chain_names = dataset().chain_names(split, id),
                              .log_p = predict_all(sample, split, id, inference)};
    require_numbers(std::span<const float>(predicted.log_p), name, "perplexity");
    sink.file(id, file + "-residues.csv", residue_table(predicted, options.top));
    sink.file(id, file + "-mutations.csv", mutation_table(predicted));
    sink.append(id, "mutations.csv", mutation_rows(predicted, name, id == 0));
    if (options.pictures) sink.file(id, file + "-mutations.svg", mutation_picture(predicted, name));
    const Summary summary = summarize(predicted);
    sink.row(id, {std::to_string(summary.residues), std::to_string(summary.known),
                  figures::decimal(summary.recovery, kDigits), figures::decimal(summary.perplexity, kDigits),
                  figures::decimal(summary.entropy, kDigits)});
  }

  std::array<std::optional<proteins::ScoringPasses>, 3> passes_;  // by split
  const proteins::Frequencies* background_ = nullptr;
};

}  // namespace

std::unique_ptr<Objective> masked_residues(const Setting& setting) {
  return std::make_unique<MaskedResidues>(setting);
}

}  // namespace pipeline::tasks::protein
