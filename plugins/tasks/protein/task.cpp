#include "plugins/tasks/protein/task.hpp"

#include <algorithm>

#include "adapters/lora_options.hpp"
#include "heads/label_folder.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/models/encoder/protein_encoder.hpp"
#include "plugins/models/protein/encoder_decoder.hpp"
#include "plugins/models/protein/label_head.hpp"

namespace pipeline::tasks::protein {

void ProteinTask::set_extra_state(std::string_view state) {
  proteins::TaskState given = proteins::state_from(state);
  background_ = given.frequencies;
  model_state_ = std::move(given.model);
  learnt_ = std::move(given.learnt);
  objective_->take_from(given);
}

std::string ProteinTask::extra_state() {
  proteins::TaskState state{.frequencies = *background_,
                            .model = model().extra_state(),
                            .learnt = learnt().value_or(proteins::Learnt())};
  objective_->put_into(state);
  return proteins::to_text(state);
}

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
    if (config().sees_structure() && !config().test_path.empty() &&
        proteins::are_sequences(config().test_path))
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
  objective_->open(*dataset_, *background_);
  const PredictConfig& options = config().predict;
  if (options.wants("embeddings") || options.wants("residue_embeddings"))
    predictions_.push_back(embeddings(setting_, *dataset_));
  if (!options.mutations.empty()) predictions_.push_back(variant_scores(setting_, *dataset_));
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
    sizes.label = objective_->head();
    model = std::make_shared<encoder::ProteinEncoder>(*options.row, sizes, options.lora, freeze);
  }
  if (const std::string problem = is_frozen.problem(model->parameters()); !problem.empty())
    config_error("freeze", problem);
  if (!model_state_.empty()) model->set_extra_state(model_state_);
  return model;
}

double ProteinTask::sample_cost(Split split, uint64_t id) const {
  return static_cast<double>(std::min(objective_->sample_length(split, id), config().data.max_residues));
}

ProteinBatch ProteinTask::make_batch(const LoadRequest& request) const {
  std::call_once(told_[static_cast<size_t>(request.split)],
                 [&] { require_unseen(request.split, request.purpose); });
  return request.purpose == Purpose::kPredict ? batch_of(request) : objective_->make_batch(request);
}

BatchInfo ProteinTask::batch_info(const ProteinBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.packed.sequences.rows());
  return {.weight = static_cast<double>(objective_->weight(batch)),
          .samples = batch.ids.size(),
          .tokens = rows,
          .positions = rows};
}

std::vector<std::string> ProteinTask::prediction_columns() {
  if (!config().predict.wants("scores")) return {"residues", "known"};
  return objective_->prediction_columns();
}

void ProteinTask::predict(const ProteinBatch& batch, const PredictionSink& sink) {
  for (const auto& prediction : predictions_) prediction->predict(batch, inference(), sink);
  if (config().predict.wants("scores")) return objective_->predict(batch, inference(), sink);
  for (const uint64_t id : batch.ids) {
    const proteins::SplitRow row = dataset_->row(batch.split, id);
    sink.row(id, {std::to_string(row.residues), std::to_string(row.known)});
  }
}

void ProteinTask::finish_predictions(Split split, const std::filesystem::path& folder,
                                     const PredictionSink& sink) {
  for (auto last = predictions_.rbegin(); last != predictions_.rend(); ++last)
    (*last)->finish(split, folder, inference(), sink);
}

std::optional<proteins::Learnt> ProteinTask::learnt() const {
  if (run().purpose != PL_PURPOSE_TRAIN) return learnt_;
  proteins::Learnt all = dataset_->learnt();
  if (learnt_) all.add(*learnt_);
  return all;
}

// Comes before a split's first sample is used: nobody shall take for new what the weights were trained with.
void ProteinTask::require_unseen(Split split, Purpose purpose) const {
  if (split == Split::kTrain || !learnt_ || (purpose != Purpose::kEvaluate && purpose != Purpose::kPredict))
    return;
  const bool own = split == Split::kTest && !config().test_path.empty();
  if (own && purpose == Purpose::kEvaluate) return;  // the data set has said it
  const proteins::Dataset::Seen seen = dataset_->seen(split, *learnt_);
  const uint64_t chosen_by = split == Split::kTest ? seen.validation : 0;
  if (seen.training + chosen_by == 0) return;
  const std::string what = concat(
      "of the ", dataset_->size(split), " samples of the ", split == Split::kTest ? "test" : "validation",
      " split ", seen.training, " were training data of these weights or of those they began with",
      chosen_by > 0
          ? concat(", and ", chosen_by, " more were validation data, which selects the best checkpoint")
          : "");
  if (purpose == Purpose::kPredict)
    return context().warn(what, ": predictions for them say little about new proteins");
  fail_with(PL_ERROR_CONFIG, what, ": figures for them would say little about new proteins. ",
            config().split.by == "column" ? "If your splits (task.split.by) have them in both, take them out "
                                            "of one and train again; else use the data"
                                          : concat("Use the data (task.", config().path_key(), ")"),
            " and options of the training (task.data, task.split, as in the run's config.toml), or set "
            "task.test_path to proteins of your own");
}

void ProteinTask::import_model(const std::filesystem::path& folder) {
  model().import_folder(folder);
  const bool lacks_head = objective_->head() && !pipeline::protein::predicts_labels(folder.string()),
             trains = run().purpose == PL_PURPOSE_TRAIN;
  const std::string adapter = config().sequence_model().lora.init_from.string();
  if (lacks_head && !trains && (adapter.empty() || !heads::adapter_predicts_labels(adapter)))
    config_error("objective", concat("needs a head for labels, which ", folder.string(),
                                     " does not have: train one with train.init_from"));
  if (const std::string note = hugging_face::note_of_weights(folder.string()); !note.empty())
    context().info(note);
  if (lacks_head && trains)
    context().info("weights    of ", folder.string(),
                   " without its output head (lm_head.*); the head for labels is new");
  learnt_ = proteins::read_learnt(folder);
  if (!learnt_)
    context().info("what the weights in ", folder.string(),
                   " were trained with is unknown: held-out data may not be new to them");
}

void ProteinTask::export_model(const std::filesystem::path& folder) {
  model().export_folder(folder);
  if (const auto all = learnt()) proteins::write_learnt(folder, *all);
}

}  // namespace pipeline::tasks::protein
