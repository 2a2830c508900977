#include "plugins/tasks/protein/task/task.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "plugins/tasks/protein/esm2/esm2.hpp"
#include "plugins/tasks/protein/model/encoder_decoder.hpp"
#include "plugins/tasks/protein/task/pack.hpp"
#include "plugins/tasks/protein/task/predictions.hpp"
#include "plugins/tasks/protein/task/scores.hpp"

namespace pipeline::protein {
namespace {

constexpr int64_t kRowsAtOnce = 4096;  // residues of a forward pass in predictions

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

// Names of samples have the folders of their files.
std::string file_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '-');
  return name;
}

// What was drawn from amino_acids_to_mask(), for all residues. Masks are the same for a residue and its copies in chains of the same
// sequence, since a copy would give it away; what is no target is seen as it is.
Masking with_copies(Masking masking, const Sample& sample) {
  for (size_t i = 0; i < sample.copy_of.size(); ++i) {
    const auto original = static_cast<size_t>(sample.copy_of[i]);
    masking.is_target[i] = masking.is_target[original];
    masking.tokens[i] = masking.is_target[i] != 0 ? masking.tokens[original] : int64_t{sample.residues[i].amino_acid};
  }
  return masking;
}

// As the mask is to see them: copies are not drawn.
std::vector<uint8_t> amino_acids_to_mask(const Sample& sample, bool unknown_too) {
  std::vector<uint8_t> amino_acids = sample.amino_acids();
  for (size_t i = 0; i < amino_acids.size(); ++i) {
    if (unknown_too && amino_acids[i] == kUnknown) amino_acids[i] = 0;
    if (sample.copy_of[i] != static_cast<int64_t>(i)) amino_acids[i] = kUnknown;
  }
  return amino_acids;
}

std::vector<int64_t> rows_from(int64_t first, int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// The part of a mask over a whole sample; targets are those from row `score` on.
Masking part_of(const Masking& whole, const std::vector<int64_t>& rows, int64_t score) {
  Masking part;
  for (const int64_t row : rows) {
    part.tokens.push_back(whole.tokens[static_cast<size_t>(row)]);
    part.is_target.push_back(row >= score ? whole.is_target[static_cast<size_t>(row)] : uint8_t{0});
  }
  return part;
}

}  // namespace

void ProteinTask::set_extra_state(std::string_view state) {
  const auto json = nlohmann::json::parse(state, nullptr, false);
  if (!json.is_object() || !json.contains("frequencies") || json["frequencies"].size() != kAminoAcidCount)
    fail_with(PL_ERROR_FAILED, "the checkpoint's state of the protein task cannot be read: it has ", state.size(), " bytes, and must be JSON with 'frequencies'");
  background_.emplace();
  for (size_t a = 0; a < kAminoAcidCount; ++a) (*background_)[a] = json["frequencies"][a];
  model_state_ = json.value("model", "");
}

std::string ProteinTask::extra_state() {
  return nlohmann::json{{"frequencies", *background_}, {"model", model().extra_state()}}.dump();
}

void ProteinTask::open_structures() {
  const auto check = [this](const char* key, const std::filesystem::path& path) {
    if (!path.empty() && !std::filesystem::exists(path))
      config_error(key, "there is no such folder or file; a path is taken from the folder in which the program is started");
  };
  const uint32_t purpose = run().purpose;
  if (purpose != PL_PURPOSE_EXPORT && (purpose == PL_PURPOSE_TRAIN || config().test_path.empty())) check("pdb_path", config().pdb_path);
  if (purpose == PL_PURPOSE_EVALUATE || purpose == PL_PURPOSE_PREDICT) check("test_path", config().test_path);
  dataset_.emplace(config(), context());
}

void ProteinTask::prepare() { open_structures(); }

void ProteinTask::open_data() {
  if (!dataset_) open_structures();  // another process has prepared
  if (!background_) background_ = dataset_->frequencies();
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    if (!is_scored(split)) continue;
    std::vector<int64_t> lengths;
    for (uint64_t id = 0; id < dataset_->size(split); ++id) lengths.push_back(dataset_->entry(split, id).residues);
    passes_[static_cast<size_t>(split)] = scoring_passes(lengths, config().data.max_residues, scoring_groups(config().mask_ratio));
  }
}

bool ProteinTask::is_scored(Split split) const {
  if (run().purpose == PL_PURPOSE_PREDICT) return false;
  return split != Split::kTrain || run().purpose != PL_PURPOSE_TRAIN;
}

std::shared_ptr<ProteinModel> ProteinTask::build_model() {
  std::shared_ptr<ProteinModel> model;
  if (config().kind == "esm2") {
    model = std::make_shared<Esm2>(config().esm2.model);
  } else {
    model = std::make_shared<EncoderDecoder>(config().model);
  }
  if (!model_state_.empty()) model->set_extra_state(model_state_);
  model->set_unit_wrapper([this, raw = model.get()](int64_t unit, const Tensors& inputs, const UnitBody& body) {
    const auto index = static_cast<uint32_t>(unit);
    if (!raw->is_layer(index)) return units().run_once(index, body, inputs);
    return units().run(index, body, inputs, raw->unit_parameters(index));
  });
  return model;
}

uint64_t ProteinTask::sample_count(Split split) const {
  return is_scored(split) ? passes_[static_cast<size_t>(split)].size() : dataset_->size(split);
}

double ProteinTask::sample_cost(Split split, uint64_t id) const {
  const int64_t length = is_scored(split) ? passes_[static_cast<size_t>(split)][id].count : dataset_->entry(split, id).residues;
  return static_cast<double>(std::min(length, config().data.max_residues));
}

std::string ProteinTask::sample_name(Split split, uint64_t id) const {
  if (!is_scored(split)) return dataset_->entry(split, id).name;
  const ScoringPass& pass = passes_[static_cast<size_t>(split)][id];
  return concat(dataset_->entry(split, pass.sample).name, " from ", pass.first, ", masking ", pass.group);
}

void ProteinTask::add_for_training(Packer& packer, ProteinBatch& batch, const LoadRequest& request, uint64_t id) const {
  const auto seed = [&](const char* what) { return context().seed(what, request.epoch, id, static_cast<uint64_t>(request.split)); };
  Sample sample = dataset_->sample(request.split, id);
  const DataConfig& data = config().data;
  const std::vector<int64_t> rows = data.crop == "spatial" ? crop_spatial(sample, data.max_residues, seed("crop"))
                                                           : crop_contiguous(static_cast<int64_t>(sample.residues.size()), data.max_residues, seed("crop"));
  const Sample kept = sample.part(rows);
  const MaskingOptions options{.ratio = config().mask_ratio, .random = config().mask.random, .keep = config().mask.keep, .span = config().mask.span};
  const Masking masking = with_copies(mask_for_training(amino_acids_to_mask(kept, false), kept.chains, options, seed("mask")), kept);
  batch.add_targets(masking, dataset_->entry(request.split, id).cluster);
  add_noise(sample.residues, data.noise, seed("noise"));
  packer.add(sample, rows, masking);
}

void ProteinTask::add_for_scoring(Packer& packer, ProteinBatch& batch, uint64_t id) const {
  const ScoringPass& pass = passes_[static_cast<size_t>(batch.split)][id];
  const Sample sample = dataset_->sample(batch.split, pass.sample);
  const Masking whole = with_copies(mask_for_scoring(amino_acids_to_mask(sample, false), scoring_groups(config().mask_ratio), pass.group,
                                                     context().seed("score", pass.sample)), sample);
  const std::vector<int64_t> rows = rows_from(pass.first, pass.count);
  const Masking masking = part_of(whole, rows, pass.score);
  batch.add_targets(masking, dataset_->entry(batch.split, pass.sample).cluster);
  packer.add(sample, rows, masking);
}

void ProteinBatch::add_targets(const Masking& masking, uint32_t cluster) {
  target_clusters.insert(target_clusters.end(), static_cast<size_t>(std::count(masking.is_target.begin(), masking.is_target.end(), 1)), cluster);
}

ProteinBatch ProteinTask::make_batch(const LoadRequest& request) const {
  ProteinBatch batch{.packed = {}, .target_clusters = {}, .ids = {request.ids.begin(), request.ids.end()}, .split = request.split};
  if (request.purpose == Purpose::kPredict) return batch;
  Packer packer(hides());
  for (const uint64_t id : request.ids) {
    if (is_scored(request.split)) {
      add_for_scoring(packer, batch, id);
    } else {
      add_for_training(packer, batch, request, id);
    }
  }
  batch.packed = packer.finish();
  return batch;
}

BatchInfo ProteinTask::batch_info(const ProteinBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.packed.samples.rows());
  return {.weight = static_cast<double>(batch.packed.target_rows.size()), .samples = batch.ids.size(), .tokens = rows, .positions = rows};
}

void ProteinTask::describe_parameter(Parameter& parameter) {
  const Parameters& all = model().parameters();
  for (size_t i = 0; i < all.size(); ++i)
    if (all.info(i).name == parameter.name) {
      parameter.unit = all.info(i).unit;
      parameter.decay = all.info(i).weight_decay;
    }
}

void ProteinTask::initialize_parameter(uint64_t index, const std::string& /*name*/, at::Tensor& out) {
  if (model().has_imported()) return model().imported(index, out);
  model().parameters().write_initial(context().seed("initialize"), index, out);
}

void ProteinTask::import_model(const std::filesystem::path& folder) { model().import_folder(folder); }
void ProteinTask::export_model(const std::filesystem::path& folder) { model().export_folder(folder); }

LossSum ProteinTask::train_batch(const ProteinBatch& batch, const TrainArgs& args) {
  // The head computes its gradients in the forward pass, so it has to know the scale.
  const transformer::Loss loss = model().loss(
      batch.packed, {.training = true, .dropout_seed = args.seed, .compute = compute_dtype(), .scale = args.scale});
  loss.scaled.backward();
  units().finish_backward();
  return LossSum(loss.sum);
}

LossSum ProteinTask::loss(const ProteinBatch& batch) { return LossSum(model().loss(batch.packed, {.compute = compute_dtype()}).sum); }

void ProteinTask::evaluate(const ProteinBatch& batch, EvaluationSink& sink) {
  Scores scores(*background_);
  const Outputs outputs = model().outputs(batch.packed, compute_dtype());
  const at::Tensor log_p = outputs.log_probabilities.to(at::kCPU).contiguous();
  const at::Tensor targets = batch.packed.targets.to(at::kCPU);
  for (int64_t t = 0; t < targets.size(0); ++t)
    scores.add({.amino_acid = static_cast<uint8_t>(targets.const_data_ptr<int64_t>()[t]), .cluster = batch.target_clusters[static_cast<size_t>(t)]},
               LogProbabilities(log_p.const_data_ptr<float>() + t * kAminoAcidCount, kAminoAcidCount));
  scores.send(sink, sink.purpose() == Purpose::kEvaluate);
  if (outputs.distance_loss.defined()) sink.value("distance_loss", outputs.distance_loss.item<double>(), static_cast<double>(targets.size(0)));
}

std::vector<Metric> ProteinTask::metrics() {
  std::vector<Metric> metrics = Scores::metrics();
  if (hides()) metrics.push_back({.name = "distance_loss", .help = "cross-entropy of the bins of a masked residue's distances, in nats"});
  return metrics;
}

void ProteinTask::report(Split /*split*/, Purpose purpose, std::span<const EvaluationValue> values, const ReportSink& sink) {
  if (purpose == Purpose::kEvaluate) report_scores(values, sink);
}

std::vector<std::string> ProteinTask::prediction_columns() { return {"residues", "known", "recovery", "perplexity", "entropy"}; }

std::vector<float> ProteinTask::predict_all(const Sample& sample, uint64_t seed) {
  const auto residues = static_cast<int64_t>(sample.residues.size());
  const uint64_t groups = config().predict.maskings > 0 ? static_cast<uint64_t>(config().predict.maskings) : scoring_groups(config().mask_ratio);
  std::vector<float> result(static_cast<size_t>(residues) * kAminoAcidCount);
  const std::vector<uint8_t> amino_acids = amino_acids_to_mask(sample, true);
  std::optional<Geometry> geometry;  // the same in every pass, unless masks hide coordinates
  if (!hides()) geometry = describe_geometry(sample.residues, sample.chains, {});
  const std::vector<ScoringPass> passes = scoring_passes({residues}, config().data.max_residues, groups);
  for (size_t next = 0; next < passes.size();) {
    context().throw_if_cancelled();
    Packer packer(hides());
    std::vector<int64_t> places;  // in the sample, of each target
    for (int64_t rows = 0; next < passes.size() && (rows == 0 || rows + passes[next].count <= kRowsAtOnce); ++next) {
      const ScoringPass& pass = passes[next];
      const Masking whole = with_copies(mask_for_scoring(amino_acids, groups, pass.group, seed), sample);
      const std::vector<int64_t> part = rows_from(pass.first, pass.count);
      const Masking masking = part_of(whole, part, pass.score);
      for (size_t n = 0; n < part.size(); ++n)
        if (masking.is_target[n] != 0) places.push_back(part[n]);
      packer.add(sample, part, masking, geometry ? &*geometry : nullptr);
      rows += pass.count;
    }
    const at::Tensor log_p = model().log_probabilities(batch_on(device(), packer.finish()), compute_dtype()).to(at::kCPU).contiguous();
    for (size_t t = 0; t < places.size(); ++t)
      std::copy_n(log_p.const_data_ptr<float>() + t * kAminoAcidCount, size_t{kAminoAcidCount},
                  result.begin() + places[t] * static_cast<int64_t>(kAminoAcidCount));
  }
  return result;
}

void ProteinTask::predict(const ProteinBatch& batch, const PredictionSink& sink) {
  for (const uint64_t id : batch.ids) {
    const Sample sample = dataset_->sample(batch.split, id);
    Predicted predicted{.sample = sample, .chain_names = dataset_->chain_names(batch.split, id), .log_p = predict_all(sample, context().seed("score", id))};
    const std::string& name = dataset_->entry(batch.split, id).name;
    sink.file(id, file_name(name) + "-residues.csv", residue_table(predicted, config().predict.top));
    sink.file(id, file_name(name) + "-mutations.csv", mutation_table(predicted));
    if (config().predict.pictures) sink.file(id, file_name(name) + "-mutations.svg", mutation_picture(predicted, name));
    const Summary summary = summarize(predicted);
    sink.row(id, {std::to_string(summary.residues), std::to_string(summary.known), decimal(summary.recovery), decimal(summary.perplexity),
                  decimal(summary.entropy)});
  }
}

double ProteinTask::flops(const ProteinBatch& batch) { return model().flops(batch.packed); }

}  // namespace pipeline::protein
