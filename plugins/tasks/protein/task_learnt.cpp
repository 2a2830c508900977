// What the weights of a task were trained with, and what follows for its evaluations.
#include "hugging_face/weights.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/models/protein/label_folder.hpp"
#include "plugins/tasks/protein/task.hpp"

namespace pipeline::tasks::protein {

void ProteinTask::set_extra_state(std::string_view state) {
  proteins::TaskState given = proteins::state_from(state);
  background_ = given.frequencies;
  model_state_ = std::move(given.model);
  learnt_ = std::move(given.learnt);
  if (given.labels && given.labels->kind == labels_.kind()) label_scale_ = std::move(given.labels);
}

std::string ProteinTask::extra_state() {
  return proteins::to_text(proteins::TaskState{.frequencies = *background_,
                                               .model = model().extra_state(),
                                               .learnt = learnt().value_or(proteins::Learnt()),
                                               .labels = label_scale_});
}

std::optional<proteins::Learnt> ProteinTask::learnt() const {
  if (run().purpose != PL_PURPOSE_TRAIN) return learnt_;
  proteins::Learnt all = dataset_->learnt();
  if (learnt_) all.add(*learnt_);
  return all;
}

// Before the first sample of a split is used: nobody shall take for new what the weights were trained with.
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
                                            "of one and train again; else use "
                                            "the data"
                                          : concat("Use the data (task.", config().path_key(), ")"),
            " and options of the training (task.data, task.split, as in the run's config.toml), or set "
            "task.test_path to proteins of your own");
}

void ProteinTask::import_model(const std::filesystem::path& folder) {
  model().import_folder(folder);
  const bool lacks_head = labels_.is_wanted() && !pipeline::protein::predicts_labels(folder.string()),
             trains = run().purpose == PL_PURPOSE_TRAIN;
  const std::string adapter = config().sequence_model().lora.init_from.string();
  if (lacks_head && !trains && (adapter.empty() || !pipeline::protein::adapter_predicts_labels(adapter)))
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
