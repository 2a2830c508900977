// What the task lends to its objective and predictions, over a few sequences, a model that says what a test
// wants, and sinks that keep what is sent.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include "plugins/data/proteins/dataset.hpp"
#include "plugins/tasks/protein/objective.hpp"
#include "tests/sdk/fake_host.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::tasks::protein {

// For each target ln p of amino acid a is ln(1/20) - a * `slope`: not normalised, where a test asks for it.
class SmallModel : public pipeline::protein::ProteinModel {
 public:
  LossSum loss(const PackedProteins&, const ForwardPass&) const override { return LossSum(at::zeros({})); }
  pipeline::protein::Outputs outputs(const PackedProteins& batch, const ForwardPass&) const override {
    seen.push_back(batch.tokens);
    const auto targets = static_cast<int64_t>(batch.target_rows.size());
    return {.log_probabilities =
                (std::log(1.0 / 20) - at::arange(20, at::kFloat) * slope).expand({targets, 20}).contiguous(),
            .log_share = {},
            .distance_loss = {}};
  }
  at::Tensor labels(const PackedProteins&, const ForwardPass&) const override { return told; }
  // A residue's embedding is its token and its position; a chain's is 7 and 8.
  pipeline::protein::Embeddings embeddings(const PackedProteins& batch, const ForwardPass&,
                                           int64_t layer) const override {
    at::Tensor chains;
    if (has_cls) chains = at::tensor({7.0f, 8.0f}).expand({batch.chain_rows.sequences(), 2});
    return {.residues = at::stack({batch.tokens, batch.positions}, 1).to(at::kFloat) + 100 * layer,
            .chains = chains};
  }
  int64_t layers() const override { return 2; }
  int64_t width() const override { return 2; }
  double flops(const PackedProteins&) const override { return 0; }
  void import_folder(const std::filesystem::path&) override {}
  void export_folder(const std::filesystem::path&) const override {}

  double slope = 0;
  bool has_cls = true;
  at::Tensor told;
  mutable std::vector<at::Tensor> seen;  // the tokens of each outputs()
};

struct SmallTask {
  // `table` is the text of the file of sequences.
  explicit SmallTask(const std::string& table, uint32_t purpose = PL_PURPOSE_TRAIN) {
    globals().host = fake::host();
    raw.run.purpose = purpose;
    context.emplace(&raw);
    config.kind = "esm2";
    config.data.min_residues = 1;
    config.split.by = "column";
    config.cache_dir = folder / "cache";
    config.sequences = folder.write("all.csv", table);
    if (purpose == PL_PURPOSE_PREDICT) config.test_path = config.sequences;
  }
  const proteins::Dataset& data() {
    if (!dataset) dataset.emplace(config, *context, nullptr);
    return *dataset;
  }
  Setting setting() const { return {.config = config, .context = *context, .errors = errors}; }
  Inference inference() { return {.model = model, .pass = pass, .device = c10::kCPU, .context = *context}; }
  // Opens the objective.
  Objective& open(std::unique_ptr<Objective> one) {
    objective = std::move(one);
    objective->open(data(), frequencies);
    return *objective;
  }
  ProteinBatch batch(Split split, std::vector<uint64_t> ids, Purpose purpose = Purpose::kTrain) const {
    return objective->make_batch({.split = split, .purpose = purpose, .ids = ids, .epoch = 0});
  }
  std::string log() const {
    std::string all;
    for (const auto& [level, line] : raw.lines) all += line + "\n";
    return all;
  }

  tests::FilesFolder folder;
  pl_context raw;
  std::optional<Context> context;
  ProteinConfig config;
  ConfigErrors errors{nullptr, "task."};
  proteins::Frequencies frequencies = [] {
    proteins::Frequencies alike;
    alike.fill(1.0 / 20);
    return alike;
  }();
  std::optional<proteins::Dataset> dataset;
  std::unique_ptr<Objective> objective;
  SmallModel model;
  ForwardPass pass;
};

// What a prediction or an evaluation sends.
struct Sent {
  std::map<uint64_t, std::vector<std::string>> rows;
  std::map<std::string, std::string> files, grown;
  std::map<std::string, std::pair<double, double>> values;
  std::vector<std::string> records;

  PredictionSink prediction() {
    to_predict = {};
    to_predict.struct_size = sizeof to_predict;
    to_predict.user = this;
    to_predict.row = [](void* user, uint64_t id, const pl_str* fields, uint64_t count) -> pl_error* {
      for (uint64_t k = 0; k < count; ++k) static_cast<Sent*>(user)->rows[id].emplace_back(view(fields[k]));
      return nullptr;
    };
    to_predict.file = [](void* user, uint64_t, pl_str name, const void* bytes, uint64_t size) -> pl_error* {
      static_cast<Sent*>(user)->files[std::string(view(name))].assign(static_cast<const char*>(bytes), size);
      return nullptr;
    };
    to_predict.append = [](void* user, uint64_t, pl_str name, const void* bytes, uint64_t size) -> pl_error* {
      static_cast<Sent*>(user)->grown[std::string(view(name))].append(static_cast<const char*>(bytes), size);
      return nullptr;
    };
    return PredictionSink(&to_predict);
  }
  EvaluationSink evaluation(uint32_t purpose = PL_PURPOSE_EVALUATE) {
    to_evaluate = {};
    to_evaluate.struct_size = sizeof to_evaluate;
    to_evaluate.user = this;
    to_evaluate.value = [](void* user, pl_str group, pl_str name, double sum, double weight) -> pl_error* {
      if (group.len > 0) return nullptr;
      auto& value = static_cast<Sent*>(user)->values[std::string(view(name))];
      value.first += sum, value.second += weight;
      return nullptr;
    };
    to_evaluate.record = [](void* user, uint64_t, pl_str, const void* bytes, uint64_t size) -> pl_error* {
      static_cast<Sent*>(user)->records.emplace_back(static_cast<const char*>(bytes), size);
      return nullptr;
    };
    pl_evaluate_args args{};
    args.struct_size = sizeof args;
    args.purpose = purpose;
    return EvaluationSink(&to_evaluate, args);
  }

  pl_prediction_sink to_predict{};
  pl_evaluation_sink to_evaluate{};
};

}  // namespace pipeline::tasks::protein
