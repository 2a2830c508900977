// Masked models of proteins: amino acids are hidden and predicted from the others and, by the
// encoder-decoder, the structure.
#pragma once

#include <pipeline/torch/task.hpp>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/data/proteins/dataset.hpp"
#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/proteins/masking.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "plugins/tasks/protein/config.hpp"
#include "plugins/tasks/protein/embedding_files.hpp"
#include "plugins/tasks/protein/pack.hpp"
#include "plugins/tasks/protein/scores.hpp"
#include "plugins/tasks/protein/variants.hpp"

namespace pipeline::tasks::protein {

using pipeline::protein::LabelForm;
using pipeline::protein::ProteinModel;

struct ProteinBatch {
  PackedProteins packed;
  std::vector<uint64_t> target_clusters;  // of packed.targets: Entry::cluster_key
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;

  void add_targets(const proteins::Masking& masking, uint64_t cluster);

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
  }
};

class ProteinTask : public TorchTask<ProteinConfig, ProteinModel, ProteinBatch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true;

  // The training data's frequencies of amino acids, what an imported model has besides parameters, and what
  // was learnt from.
  std::string extra_state() override;
  void set_extra_state(std::string_view state) override;
  void prepare() override;
  void open_data() override;
  std::shared_ptr<ProteinModel> build_model() override;

  // In training a sample is a chain, or structure, seen once in an epoch; where residues are scored it is a
  // forward pass that masks some of them; where they are predicted, again a chain or structure.
  uint64_t sample_count(Split split) const override;
  double sample_cost(Split split, uint64_t id) const override;
  std::string data_fingerprint() override { return dataset_->fingerprint(); }
  ProteinBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const ProteinBatch& batch) const override;

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  LossSum loss(const ProteinBatch& batch) override { return model().loss(batch.packed, pass()); }
  void evaluate(const ProteinBatch& batch, EvaluationSink& sink) override;
  std::vector<Metric> metrics() override;
  void report(const Report& report, const ReportSink& sink) override;
  std::vector<std::string> prediction_columns() override;
  std::string sample_name(Split split, uint64_t id) const override;
  void predict(const ProteinBatch& batch, const PredictionSink& sink) override;
  // Embeddings in other formats, and a picture of them.
  void finish_predictions(Split split, const std::filesystem::path& folder,
                          const PredictionSink& sink) override;
  double flops(const ProteinBatch& batch) override;

 private:
  static constexpr int64_t kRowsAtOnce = 4096;  // residues of a forward pass in predictions

  // Predictions: calls run(begin, end) for parts of `items` that a forward pass has room for, or that are one
  // item. rows_of(i): its residues.
  template <class RowsOf, class Run>
  void in_passes(size_t items, const RowsOf& rows_of, const Run& run) {
    for (size_t begin = 0, end = 0; begin < items; begin = end) {
      context().throw_if_cancelled();
      for (int64_t rows = 0; end < items && (rows == 0 || rows + rows_of(end) <= kRowsAtOnce); ++end)
        rows += rows_of(end);
      run(begin, end);
    }
  }
  void open_dataset();
  void list_passes(Split split);
  proteins::ScoringPass pass_of(Split split, uint64_t id) const;
  bool is_scored(Split split) const;
  // The part that a split is; none where it is several, or structures of its own.
  std::optional<Fold> fold_of(Split split) const;
  // What these weights have learnt from, this run included; nothing where nobody knows.
  std::optional<proteins::Learnt> learnt() const;
  void require_unseen(Split split, Purpose purpose) const;
  void add_for_training(class Packer& packer, ProteinBatch& batch, const LoadRequest& request,
                        uint64_t id) const;
  // (residues, 20) log-probabilities, each residue masked once.
  std::vector<float> predict_all(const proteins::Sample& sample, Split split, uint64_t id);
  proteins::ScoringGroups groups_of(const proteins::Sample& sample, Split split, uint64_t id) const;
  void score(Split split, uint64_t id, const PredictionSink& sink);
  void embed(const ProteinBatch& batch, const PredictionSink& sink);
  struct Question;
  void ask(const std::vector<Question>& questions,
           const std::function<void(size_t, size_t, const float*, double)>& on_answer);
  std::set<size_t> hidden_with(const proteins::Sample& sample, const std::vector<size_t>& places) const;
  std::vector<double> marginals(const proteins::Sample& sample,
                                const std::vector<std::vector<Substitution>>& variants);
  std::vector<double> pseudo_likelihoods(const proteins::Sample& sample,
                                         const std::vector<std::vector<Substitution>>& variants);
  const Variants& variants();
  void score_variants(Split split, uint64_t id, const PredictionSink& sink);
  std::vector<const Variant*> variants_of(Split split, uint64_t id);
  std::string proposed_offset(Split split);
  void finish_variants(Split split, const std::filesystem::path& folder, const PredictionSink& sink);
  // With task.objective = regression, classification or contacts.
  std::optional<LabelForm> label_form() const;
  void open_labels();
  void check_classes(const proteins::LabelCounts& counts) const;
  void tell_passed_over(const proteins::LabelCounts& counts) const;
  ProteinBatch label_batch(const LoadRequest& request) const;
  void evaluate_labels(const ProteinBatch& batch, EvaluationSink& sink);
  void predict_labels(const ProteinBatch& batch, const PredictionSink& sink);
  int64_t embedded_layer();
  void draw_map(Split split, const std::filesystem::path& folder, const PredictionSink& sink);
  Metadata metadata(int64_t layer) const;
  bool sees_structure() const { return config().sees_structure(); }
  // Whether masked residues lose their coordinates, too.
  bool hides() const { return config().model.distogram > 0; }
  Packing packing() const {
    return !sees_structure() ? Packing::kSequence : hides() ? Packing::kHide : Packing::kShow;
  }

  std::optional<proteins::Dataset> dataset_;
  std::array<std::optional<proteins::ScoringPasses>, 3> passes_;  // by split
  std::optional<ChainEmbeddings> chain_files_;                    // once the first is predicted
  std::optional<ResidueEmbeddings> residue_files_;                // likewise
  std::optional<Variants> variants_;
  const proteins::Labels labels_{config().objective, config().label};
  std::optional<proteins::LabelScale> label_scale_;  // from the weights, or the training data
  std::optional<proteins::Frequencies> background_;  // of the data that the model learnt from
  std::string model_state_;                          // came with the weights, as did:
  std::optional<proteins::Learnt> learnt_;
  mutable std::array<std::once_flag, 3> told_;  // by split
};

}  // namespace pipeline::tasks::protein
