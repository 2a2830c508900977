// Models of proteins that learn masked residues or labels.
#pragma once

#include <pipeline/torch/task.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/data/proteins/dataset.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "plugins/tasks/protein/config.hpp"
#include "plugins/tasks/protein/objective.hpp"

namespace pipeline::tasks::protein {

using pipeline::protein::ProteinModel;

class ProteinTask : public TorchTask<ProteinConfig, ProteinModel, ProteinBatch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true, kIsSameOnAnyThreads = true;

  // The training data's frequencies of amino acids, what an imported model has besides parameters, what was
  // learnt from, and what the objective adds.
  std::string extra_state() override;
  void set_extra_state(std::string_view state) override;
  void prepare() override;
  void open_data() override;
  std::shared_ptr<ProteinModel> build_model() override;

  uint64_t sample_count(Split split) const override { return objective_->sample_count(split); }
  double sample_cost(Split split, uint64_t id) const override;
  std::string data_fingerprint() override { return dataset_->fingerprint(); }
  ProteinBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const ProteinBatch& batch) const override;

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  LossSum loss(const ProteinBatch& batch) override { return model().loss(batch.packed, pass()); }
  void evaluate(const ProteinBatch& batch, EvaluationSink& sink) override {
    objective_->evaluate(batch, inference(), sink);
  }
  std::vector<Metric> metrics() override { return objective_->metrics(); }
  void report(const Report& report, const ReportSink& sink) override { objective_->report(report, sink); }
  std::vector<std::string> prediction_columns() override;
  std::string sample_name(Split split, uint64_t id) const override {
    return objective_->sample_name(split, id);
  }
  void predict(const ProteinBatch& batch, const PredictionSink& sink) override;
  void finish_predictions(Split split, const std::filesystem::path& folder,
                          const PredictionSink& sink) override;
  double flops(const ProteinBatch& batch) override { return model().flops(batch.packed); }

 private:
  void open_dataset();
  // What these weights have learnt from, this run included; nothing where nobody knows.
  std::optional<proteins::Learnt> learnt() const;
  void require_unseen(Split split, Purpose purpose) const;
  Inference inference() {
    return {.model = model(), .pass = pass(), .device = device(), .context = context()};
  }

  const Setting setting_{.config = config(), .context = context(), .errors = errors()};
  const std::unique_ptr<Objective> objective_ =
      config().objective == residues::kMasked ? masked_residues(setting_) : learnt_labels(setting_);
  std::optional<proteins::Dataset> dataset_;
  std::vector<std::unique_ptr<Prediction>> predictions_;  // beside those of the objective
  std::optional<proteins::Frequencies> background_;       // of the data that the model learnt from
  std::string model_state_;                               // came with the weights, as did:
  std::optional<proteins::Learnt> learnt_;
  mutable std::array<std::once_flag, 3> told_;  // by split
};

}  // namespace pipeline::tasks::protein
