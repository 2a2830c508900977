#include "plugins/tasks/protein/task.hpp"

#include <algorithm>
#include <map>

#include <ATen/core/Tensor.h>

#include "adapters/freeze.hpp"
#include "plugins/data/proteins/masking.hpp"
#include "plugins/data/proteins/sequence_samples.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/models/encoder/protein_encoder.hpp"
#include "plugins/models/protein/encoder_decoder.hpp"
#include "plugins/tasks/protein/label_report.hpp"
#include "plugins/tasks/protein/pack.hpp"
#include "plugins/tasks/protein/scores.hpp"

namespace pipeline::tasks::protein {

void ProteinTask::open_dataset() {
  const auto check = [this](const char* key, const std::filesystem::path& path) {
    if (const std::string problem = proteins::problem_of(path); !problem.empty()) config_error(key, problem);
  };
  const uint32_t purpose = run().purpose;
  if (purpose != PL_PURPOSE_EXPORT) {  // reads no data
    const bool is_needed = purpose == PL_PURPOSE_TRAIN || config().test_path.empty();
    if (is_needed && config().path().empty())
      config_error("test_path", "must be given, or task.pdb_path: structures or sequences to look at");
    if (is_needed) check(config().path_key(), config().path());
    check("test_path", config().test_path);
    check("split.list", config().split.list);
    if (sees_structure() && !config().test_path.empty() && proteins::are_sequences(config().test_path))
      config_error("test_path", concat("is sequences, which have no structure: task.model = \"",
                                       config().kind, "\" needs structures"));
  }
  dataset_.emplace(config(), context(), learnt_ ? &*learnt_ : nullptr);
}

void ProteinTask::prepare() { open_dataset(); }

void ProteinTask::open_data() {
  if (!dataset_) open_dataset();  // another process has prepared
  if (!background_) background_ = dataset_->frequencies();
  const std::filesystem::path dir = view(run().run_dir);
  if (run().purpose == PL_PURPOSE_TRAIN && run().rank == 0 && !dir.empty())
    dataset_->write_table((dir / "splits.csv").string());
  if (labels_.is_wanted()) open_labels();
  std::string scored;
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    if (!is_scored(split) || dataset_->size(split) == 0) continue;
    list_passes(split);
    scored += concat(scored.empty() ? "" : ", ", proteins::name_of(split), " in ", sample_count(split));
  }
  // What the host counts as samples in an evaluation, and sets evaluate.max_samples against.
  if (!scored.empty())
    context().info(
        "scoring    masks each residue once, a part at a time: these are an evaluation's samples, ", scored);
}

// By what the sample is, so that its neighbours in the folder do not matter.
proteins::ScoringGroups ProteinTask::groups_of(const proteins::Sample& sample, Split split,
                                               uint64_t id) const {
  const bool predicts = run().purpose == PL_PURPOSE_PREDICT;
  const int64_t wanted = predicts ? config().predict.maskings : 0;
  const uint64_t most =
      wanted > 0 ? static_cast<uint64_t>(wanted) : proteins::scoring_groups(config().mask_ratio);
  return proteins::scoring_groups_of(sample, most, context().seed("score", dataset_->key(split, id)),
                                     predicts);
}

void ProteinTask::list_passes(Split split) {
  const uint64_t groups = proteins::scoring_groups(config().mask_ratio);
  proteins::ScoringPasses& all = passes_[static_cast<size_t>(split)].emplace(groups);
  for (uint64_t id = 0; id < dataset_->size(split); ++id) {
    context().throw_if_cancelled();
    const proteins::SplitRow row = dataset_->row(split, id);
    if (row.chains == 1 && row.residues <= config().data.max_residues && row.known >= groups)
      all.add_whole();
    else
      all.add(proteins::scoring_passes(id, groups_of(dataset_->sample(split, id), split, id),
                                       config().data.max_residues));
  }
  all.finish();
}

proteins::ScoringPass ProteinTask::pass_of(Split split, uint64_t id) const {
  proteins::ScoringPass pass = (*passes_[static_cast<size_t>(split)])[id];
  if (pass.count == 0) pass.count = static_cast<int32_t>(dataset_->row(split, pass.sample).residues);
  return pass;
}

bool ProteinTask::is_scored(Split split) const {
  if (run().purpose == PL_PURPOSE_PREDICT || labels_.is_wanted()) return false;
  return split != Split::kTrain || run().purpose != PL_PURPOSE_TRAIN;
}

std::shared_ptr<ProteinModel> ProteinTask::build_model() {
  std::shared_ptr<ProteinModel> model;
  adapters::Freeze is_frozen(config().freeze);
  const auto freeze = [&](Parameter& parameter) {
    if (is_frozen(parameter.name)) parameter.trainable = false;
  };
  if (config().sees_structure()) {
    model = std::make_shared<pipeline::protein::EncoderDecoder>(config().model);
  } else {
    const encoder::EncoderOptions& options = config().sequence_model();
    encoder::Config sizes = options.model;
    sizes.label = label_form();
    model = std::make_shared<encoder::ProteinEncoder>(*options.row, sizes, options.lora, freeze);
  }
  if (const std::string problem = is_frozen.problem(model->parameters()); !problem.empty())
    config_error("freeze", problem);
  if (!model_state_.empty()) model->set_extra_state(model_state_);
  return model;
}

uint64_t ProteinTask::sample_count(Split split) const {
  if (!is_scored(split)) return dataset_->size(split);
  const auto& passes = passes_[static_cast<size_t>(split)];
  return passes ? passes->size() : 0;
}

double ProteinTask::sample_cost(Split split, uint64_t id) const {
  const int64_t length = is_scored(split) ? pass_of(split, id).count : dataset_->row(split, id).residues;
  return static_cast<double>(std::min(length, config().data.max_residues));
}

std::string ProteinTask::sample_name(Split split, uint64_t id) const {
  if (!is_scored(split)) return dataset_->name(split, id);
  const proteins::ScoringPass pass = pass_of(split, id);
  return concat(dataset_->name(split, pass.sample), " from ", pass.first, ", masking ", pass.group);
}

void ProteinTask::add_for_training(Packer& packer, ProteinBatch& batch, const LoadRequest& request,
                                   uint64_t id) const {
  const auto seed = [&](const char* what) {
    return context().seed(what, request.epoch, id, static_cast<uint64_t>(request.split));
  };
  proteins::Sample sample = dataset_->sample(request.split, id);
  const proteins::DataConfig& data = config().data;
  const std::vector<int64_t> rows =
      data.crop == "spatial" ? proteins::crop_spatial(sample, data.max_residues, seed("crop"))
                             : proteins::crop_contiguous(static_cast<int64_t>(sample.residues.size()),
                                                         data.max_residues, seed("crop"));
  const proteins::Sample kept = sample.part(rows);
  proteins::MaskingOptions options = config().mask;
  options.ratio = config().mask_ratio;
  const proteins::Masking masking = proteins::with_copies(
      proteins::mask_for_training(proteins::amino_acids_to_mask(kept), kept.chains, options, seed("mask")),
      kept);
  batch.add_targets(masking, dataset_->row(request.split, id).cluster_key);
  proteins::add_noise(sample.residues, data.noise, seed("noise"));
  packer.add(sample, rows, masking);
}

void ProteinBatch::add_targets(const proteins::Masking& masking, uint64_t cluster) {
  target_clusters.insert(
      target_clusters.end(),
      static_cast<size_t>(std::count(masking.is_target.begin(), masking.is_target.end(), 1)), cluster);
}

ProteinBatch ProteinTask::make_batch(const LoadRequest& request) const {
  ProteinBatch batch{.packed = {},
                     .target_clusters = {},
                     .ids = {request.ids.begin(), request.ids.end()},
                     .split = request.split};
  std::call_once(told_[static_cast<size_t>(request.split)],
                 [&] { require_unseen(request.split, request.purpose); });
  if (request.purpose == Purpose::kPredict) return batch;
  if (labels_.is_wanted()) return label_batch(request);
  Packer packer(packing());
  std::map<uint64_t, ScoredSample> samples;  // passes over one often come together
  for (const uint64_t id : request.ids) {
    if (!is_scored(request.split)) {
      add_for_training(packer, batch, request, id);
      continue;
    }
    const proteins::ScoringPass pass = pass_of(request.split, id);
    auto found = samples.find(pass.sample);
    if (found == samples.end()) {
      proteins::Sample sample = dataset_->sample(request.split, pass.sample);
      proteins::ScoringGroups groups = groups_of(sample, request.split, pass.sample);
      found = samples.try_emplace(pass.sample, std::move(sample), std::move(groups), packing()).first;
    }
    batch.add_targets(found->second.pack(packer, pass),
                      dataset_->row(request.split, pass.sample).cluster_key);
  }
  batch.packed = packer.finish();
  require_ids(batch.packed.tokens, sees_structure() ? residues::kTokenCount : residues::kCodeCount, "token");
  require_ids(batch.packed.targets, residues::kAminoAcidCount, "target");
  return batch;
}

BatchInfo ProteinTask::batch_info(const ProteinBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.packed.sequences.rows());
  return {.weight = static_cast<double>(labels_.are_contacts() ? batch.ids.size()
                                                               : batch.packed.target_rows.size()),
          .samples = batch.ids.size(),
          .tokens = rows,
          .positions = rows};
}

void ProteinTask::evaluate(const ProteinBatch& batch, EvaluationSink& sink) {
  if (labels_.is_wanted()) return evaluate_labels(batch, sink);
  Scores scores(*background_, fold_of(batch.split));
  const pipeline::protein::Outputs outputs = model().outputs(batch.packed, pass());
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

std::optional<Fold> ProteinTask::fold_of(Split split) const {
  const proteins::SplitConfig& options = config().split;
  if (split == Split::kTrain || (split == Split::kTest && !config().test_path.empty())) return std::nullopt;
  return Fold{.number = split == Split::kTest ? options.fold : (options.fold + 1) % options.folds,
              .count = options.folds};
}

std::vector<Metric> ProteinTask::metrics() {
  if (labels_.is_wanted()) return label_metrics(labels_);
  std::vector<Metric> metrics = Scores::metrics();
  if (hides())
    metrics.push_back({.name = "distance_loss",
                       .help = "cross-entropy of the bins of a masked residue's distances, in nats"});
  return metrics;
}

void ProteinTask::report(const Report& report, const ReportSink& sink) {
  if (labels_.is_wanted())
    return report_labels(labels_, label_scale_.value_or(proteins::LabelScale()), report, sink);
  if (report.purpose == Purpose::kEvaluate) report_scores(report.values, sink);
}

double ProteinTask::flops(const ProteinBatch& batch) { return model().flops(batch.packed); }

}  // namespace pipeline::tasks::protein
