// What a task of proteins is made of: one objective, masked residues or labels, and the predictions that are
// asked for beside the objective's own.
#pragma once

#include <pipeline/options.hpp>
#include <pipeline/torch/batch.hpp>
#include <pipeline/torch/forward.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/data/proteins/dataset.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/models/protein/label_head.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "plugins/tasks/protein/config.hpp"
#include "plugins/tasks/protein/pack.hpp"

namespace pipeline::tasks::protein {

using pipeline::protein::LabelForm;

// What the task lends to its objective and its predictions: valid as long as they are.
struct Setting {
  const ProteinConfig& config;
  const Context& context;
  const ConfigErrors& errors;
};

// What the task has of its model during one call.
struct Inference {
  static constexpr int64_t kRowsAtOnce = 4096;  // residues of a forward pass in predictions

  pipeline::protein::ProteinModel& model;
  const ForwardPass& pass;
  c10::Device device;
  const Context& context;

  // Calls run(begin, end) for parts of `items` that a forward pass has room for, or that are one item.
  // rows_of(i): its residues.
  template <class RowsOf, class Run>
  void in_passes(size_t items, const RowsOf& rows_of, const Run& run) const {
    for (size_t begin = 0, end = 0; begin < items; begin = end) {
      context.throw_if_cancelled();
      for (int64_t rows = 0; end < items && (rows == 0 || rows + rows_of(end) <= kRowsAtOnce); ++end)
        rows += rows_of(end);
      run(begin, end);
    }
  }
  PackedProteins there(Packer& packer) const { return batch_on(device, packer.finish()); }
  pipeline::protein::Outputs outputs(Packer& packer) const { return model.outputs(there(packer), pass); }
};

// Methods are called from the main thread, but for those marked [any-thread].
class Objective {
 public:
  explicit Objective(const Setting& setting) : setting_(setting) {}
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;
  virtual ~Objective() = default;

  // State from a checkpoint, before open(); and into one.
  virtual void take_from(proteins::TaskState& /*state*/) {}
  virtual void put_into(proteins::TaskState& /*state*/) const {}

  // Both are lent: the data, and the frequencies of amino acids in what the weights have learnt from. Comes
  // before the methods below.
  virtual void open(const proteins::Dataset& dataset, const proteins::Frequencies& background) = 0;
  // The head that the model needs in place of its own; nothing: none.
  virtual std::optional<LabelForm> head() const { return std::nullopt; }

  // The samples of a split. [any-thread]
  virtual uint64_t sample_count(Split split) const { return dataset().size(split); }
  virtual int64_t sample_length(Split split, uint64_t id) const { return dataset().row(split, id).residues; }
  virtual std::string sample_name(Split split, uint64_t id) const { return dataset().name(split, id); }
  // A batch for training and evaluations. [any-thread]
  virtual ProteinBatch make_batch(const LoadRequest& request) const = 0;
  // How many terms the loss is a sum of. [any-thread]
  virtual uint64_t weight(const ProteinBatch& batch) const { return batch.packed.target_rows.size(); }

  // The sums of a batch.
  virtual void evaluate(const ProteinBatch& batch, const Inference& inference,
                        const EvaluationSink& sink) const = 0;
  // metrics() and report() are also called where nothing was opened.
  virtual std::vector<Metric> metrics() const = 0;
  virtual void report(const Report& report, const ReportSink& sink) const = 0;

  // With "scores" in task.predict.what: what the table of predictions says of a sample, and the files.
  virtual std::vector<std::string> prediction_columns() const = 0;
  virtual void predict(const ProteinBatch& batch, const Inference& inference,
                       const PredictionSink& sink) const = 0;

 protected:
  void lend(const proteins::Dataset& dataset) { dataset_ = &dataset; }
  const proteins::Dataset& dataset() const { return *dataset_; }
  const ProteinConfig& config() const { return setting_.config; }
  const Context& context() const { return setting_.context; }
  const Setting& setting() const { return setting_; }

 private:
  const Setting setting_;
  const proteins::Dataset* dataset_ = nullptr;
};

// Amino acids are hidden and predicted from the others and, by the encoder-decoder, the structure. In
// training a sample is a chain, or structure, seen once in an epoch; where residues are scored it is a
// forward pass that masks some of them; where they are predicted, again a chain or structure.
std::unique_ptr<Objective> masked_residues(const Setting& setting);

// Numbers or classes of chains or of their residues, or contacts, by a head in place of the model's own.
std::unique_ptr<Objective> learnt_labels(const Setting& setting);

// What is made of samples beside their scores. Methods are called from the main thread.
class Prediction {
 public:
  // dataset: it outlives the object.
  Prediction(const Setting& setting, const proteins::Dataset& dataset)
      : setting_(setting), dataset_(dataset) {}
  Prediction(const Prediction&) = delete;
  Prediction& operator=(const Prediction&) = delete;
  virtual ~Prediction() = default;

  virtual void predict(const ProteinBatch& batch, const Inference& inference, const PredictionSink& sink) = 0;
  // Makes something of all that is in `folder`, on one process.
  virtual void finish(Split split, const std::filesystem::path& folder, const Inference& inference,
                      const PredictionSink& sink) = 0;

 protected:
  const PredictConfig& options() const { return setting_.config.predict; }

  const Setting setting_;
  const proteins::Dataset& dataset_;
};

// A vector for each sample, "embeddings.safetensors", or for each residue,
// "residue-embeddings-00001-of-00003.safetensors" and so on; and as Parquet, and as a picture. They grow with
// a prediction.
std::unique_ptr<Prediction> embeddings(const Setting& setting, const proteins::Dataset& dataset);

// The table that task.predict.mutations names, as "variants.csv" with scores, and how these rank beside what
// was measured.
std::unique_ptr<Prediction> variant_scores(const Setting& setting, const proteins::Dataset& dataset);

}  // namespace pipeline::tasks::protein
