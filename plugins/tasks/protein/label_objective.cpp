// The objective of labels.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <pipeline/numbers.hpp>

#include "plugins/data/proteins/report_text.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/labels/confusion.hpp"
#include "plugins/scores/labels/report.hpp"
#include "plugins/tasks/protein/label_files.hpp"
#include "plugins/tasks/protein/objective.hpp"

namespace pipeline::tasks::protein {
namespace {

using Of = LabelForm::Of;

// Consecutive residues, with at least one that has a label.
std::vector<int64_t> crop_with_label(const proteins::Sample& sample, const proteins::SampleLabels& labels,
                                     int64_t most, uint64_t seed) {
  const auto size = static_cast<int64_t>(sample.size());
  std::vector<int64_t> rows = proteins::crop_contiguous(size, most, seed);
  const auto next = std::ranges::lower_bound(labels.places, rows.front());
  if (next != labels.places.end() && *next <= rows.back()) return rows;
  const int64_t place = next != labels.places.end() ? *next : labels.places.back(),
                first = std::clamp(place - most / 2, int64_t{0}, size - most);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// Samples packed with what is to be predicted of them.
class LabelPacker {
 public:
  LabelPacker(const LabelForm& form, const records::LabelScale& scale) : form_(form), scale_(scale) {}

  // rows: of the sample, consecutive. labels: null where nothing is known of them.
  void add(const proteins::Sample& sample, const std::vector<int64_t>& rows,
           const proteins::SampleLabels* labels) {
    proteins::Masking masking = proteins::nothing_masked(
        std::span(sample.codes).subspan(static_cast<size_t>(rows.front()), rows.size()));
    if (form_.of == Of::kSamples) {
      masking.is_target.front() = 1;
    } else if (form_.of == Of::kPairs || labels == nullptr) {
      std::ranges::fill(masking.is_target, uint8_t{1});
    }
    if (labels != nullptr && form_.of == Of::kPairs) add_pairs(sample, rows, *labels);
    for (size_t k = 0; labels != nullptr && form_.of != Of::kPairs && k < labels->places.size(); ++k) {
      const int64_t place = labels->places[k];
      if (form_.of == Of::kParts) {
        if (place < rows.front() || place > rows.back()) continue;
        masking.is_target[static_cast<size_t>(place - rows.front())] = 1;
      }
      if (form_.are_numbers)
        numbers_.push_back(static_cast<float>((labels->numbers[k] - form_.mean) / form_.deviation));
      else
        classes_.push_back(number_of(labels->classes[k]));
    }
    packer_.add(sample, rows, masking);
  }
  PackedProteins finish() {
    PackedProteins packed = packer_.finish();
    if (!classes_.empty()) packed.targets = at::tensor(classes_, at::kLong);
    if (!numbers_.empty()) packed.values = at::tensor(numbers_, at::kFloat);
    if (!pairs_.empty()) packed.pair_labels = at::tensor(pairs_, at::kByte);
    return packed;
  }

 private:
  int64_t number_of(const std::string& name) const {
    if (const auto number = scale_.number_of(name)) return static_cast<int64_t>(*number);
    fail_with(PL_ERROR_CONFIG, "task.label: the data has a class \"", name, "\", and the model has ",
              records::quoted(scale_.classes), ": leave out what is of another class");
  }
  void add_pairs(const proteins::Sample& sample, const std::vector<int64_t>& rows,
                 const proteins::SampleLabels& labels) {
    const size_t length = rows.size(), begin = pairs_.size();
    const auto first = static_cast<uint32_t>(rows.front());
    pairs_.resize(begin + length * length, residues::kNoPair);
    const auto at = [&](size_t i, size_t j) -> uint8_t& { return pairs_[begin + i * length + j]; };
    for (size_t i = 0; i < length; ++i)
      for (size_t j = 0; j < length; ++j)
        if (sample.has_frame(first + i) && sample.has_frame(first + j) &&
            std::abs(sample.position(first + i) - sample.position(first + j)) >= residues::kLeastApart)
          at(i, j) = residues::kNoContact;
    for (const auto& [i, j] : labels.contacts)
      if (i >= first && j < first + length)
        at(i - first, j - first) = at(j - first, i - first) = residues::kContact;
  }

  const LabelForm& form_;
  const records::LabelScale& scale_;
  Packer packer_{Packing::kSequence};
  std::vector<int64_t> classes_;
  std::vector<float> numbers_;
  std::vector<uint8_t> pairs_;
};

// What a model says of each sample of a batch, in host memory.
class ToldLabels {
 public:
  ToldLabels(const PackedProteins& packed, const LabelForm& form, const at::Tensor& told)
      : packed_(packed), form_(form), told_(told.to(at::kCPU, at::kFloat).contiguous()) {}

  // The next sample's values. Pairs: (L, L); else (labels, outputs).
  std::span<const float> next() {
    const int64_t end = packed_.sequences.start(sample_ + 1), length = packed_.sequences.length(sample_);
    ++sample_;
    int64_t count = 0;
    for (; target_ < packed_.target_rows.size() && packed_.target_rows[target_] < end; ++target_) ++count;
    const int64_t values = form_.of == Of::kPairs ? length * length : count * form_.outputs();
    const std::span<const float> result(told_.const_data_ptr<float>() + begin_, static_cast<size_t>(values));
    begin_ += values;
    return result;
  }

 private:
  const PackedProteins& packed_;
  const LabelForm& form_;
  at::Tensor told_;
  int64_t sample_ = 0, begin_ = 0;
  size_t target_ = 0;
};

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// A batch's labels in host memory, as the model is to tell them, and the sums over its samples.
class LabelSums {
 public:
  LabelSums(const PackedProteins& packed, const LabelForm& form)
      : packed_(packed),
        form_(form),
        targets_(host(packed.targets)),
        values_(host(packed.values)),
        pairs_(host(packed.pair_labels)),
        positions_(host(packed.positions)),
        confusion_(form.classes.size()) {}

  // Adds the next sample: its loss, and of how many labels that is the sum; figures go to `record`.
  std::pair<double, double> add(std::span<const float> predicted, labels::LabelRecord& record) {
    ++sample_;
    return form_.of == Of::kPairs ? add_pairs(predicted, record) : add_rows(predicted, record);
  }
  const labels::Confusion& confusion() const { return confusion_; }

 private:
  static at::Tensor host(const at::Tensor& t) { return t.defined() ? t.to(at::kCPU) : t; }

  std::pair<double, double> add_pairs(std::span<const float> predicted, labels::LabelRecord& record) {
    const std::span right(pairs_.const_data_ptr<uint8_t>() + pair_, predicted.size());
    const std::span at(positions_.const_data_ptr<int64_t>() + packed_.sequences.start(sample_ - 1),
                       static_cast<size_t>(packed_.sequences.length(sample_ - 1)));
    double loss = 0, counted = 0;
    for (size_t k = 0; k < predicted.size(); ++k) {
      if (right[k] == residues::kNoPair) continue;
      const auto x = static_cast<double>(predicted[k]);
      loss += softplus(right[k] == residues::kContact ? -x : x);
      counted += 1;
    }
    record.values = labels::contact_figures(predicted, right, at);
    pair_ += predicted.size();
    return {loss / std::max(counted, 1.0), 1};
  }
  std::pair<double, double> add_rows(std::span<const float> predicted, labels::LabelRecord& record) {
    const auto outputs = static_cast<size_t>(form_.outputs());
    double loss = 0;
    for (size_t k = 0; k < predicted.size(); k += outputs, ++row_) {
      if (form_.are_numbers) {
        loss += std::pow(static_cast<double>(predicted[k] - values_.const_data_ptr<float>()[row_]), 2);
      } else {
        const auto right = static_cast<size_t>(targets_.const_data_ptr<int64_t>()[row_]);
        const auto scores = predicted.subspan(k, outputs);
        loss -= static_cast<double>(scores[right]);
        confusion_.add(right, static_cast<size_t>(std::ranges::max_element(scores) - scores.begin()));
        record.values.push_back(static_cast<float>(right));
      }
      record.values.insert(record.values.end(), &predicted[k], &predicted[k] + outputs);
    }
    return {loss, static_cast<double>(predicted.size() / outputs)};
  }

  const PackedProteins& packed_;
  const LabelForm& form_;
  const at::Tensor targets_, values_, pairs_, positions_;
  labels::Confusion confusion_;
  int64_t sample_ = 0;
  size_t row_ = 0, pair_ = 0;
};

class LabelObjective : public Objective {
 public:
  explicit LabelObjective(const Setting& setting)
      : Objective(setting), labels_(setting.config.objective, setting.config.label) {}

  void take_from(proteins::TaskState& state) override {
    if (state.labels && state.labels->kind == labels_.kind()) scale_ = std::move(state.labels);
  }
  void put_into(proteins::TaskState& state) const override { state.labels = scale_; }
  // Where the run trains, its data decide, but for what a head of the same labels has learnt already.
  void open(const proteins::Dataset& dataset, const proteins::Frequencies& /*background*/) override {
    lend(dataset);
    if (labels_.are_contacts())
      scale_.emplace();
    else
      learn_scale();
  }
  std::optional<LabelForm> head() const override {
    LabelForm form;
    if (labels_.are_contacts()) {
      form.of = Of::kPairs;
      return form;
    }
    form.of = config().label.is_per_residue() ? Of::kParts : Of::kSamples;
    form.are_numbers = labels_.are_numbers();
    form.classes = scale_->classes;
    form.mean = scale_->mean, form.deviation = scale_->deviation;
    return form;
  }
  ProteinBatch make_batch(const LoadRequest& request) const override {
    const LabelForm form = *head();
    const int64_t most = config().data.max_residues;
    LabelPacker packer(form, *scale_);
    for (const uint64_t id : request.ids) {
      const proteins::Sample sample = dataset().sample(request.split, id);
      const proteins::SampleLabels labels = dataset().labels(request.split, id);
      const uint64_t seed = context().seed("crop", request.epoch, id, static_cast<uint64_t>(request.split));
      const auto size = static_cast<int64_t>(sample.size());
      const bool is_cropped = request.purpose == Purpose::kTrain && size > most;
      packer.add(sample,
                 !is_cropped               ? all_rows(sample)
                 : form.of == Of::kSamples ? proteins::crop_contiguous(size, most, seed)
                                           : crop_with_label(sample, labels, most, seed),
                 &labels);
    }
    ProteinBatch batch = batch_of(request);
    batch.packed = packer.finish();
    return batch;
  }
  uint64_t weight(const ProteinBatch& batch) const override {
    return labels_.are_contacts() ? batch.ids.size() : Objective::weight(batch);
  }
  void evaluate(const ProteinBatch& batch, const Inference& inference,
                const EvaluationSink& sink) const override {
    const LabelForm form = *head();
    ToldLabels told(batch.packed, form, inference.model.labels(batch.packed, inference.pass));
    LabelSums sums(batch.packed, form);
    const bool is_full = sink.purpose() == Purpose::kEvaluate,
               keeps_records = is_full || form.of != Of::kParts || form.are_numbers;
    for (const uint64_t id : batch.ids) {
      const std::span<const float> predicted = told.next();
      if (is_full) require_numbers(predicted, dataset().name(batch.split, id), "prediction");
      labels::LabelRecord record{.group = dataset().row(batch.split, id).cluster_key};
      const auto [loss, count] = sums.add(predicted, record);
      if (form.are_numbers) record.right = dataset().labels(batch.split, id).numbers;
      sink.value("loss", loss, count);
      if (keeps_records) sink.record(id, labels::LabelRecord::kKey, record.pack());
    }
    labels::send_confusion(sink, sums.confusion());
    labels::send_predicted(sink,
                           {.classes = scale_->classes,
                            .usual = scale_->usual,
                            .mean = scale_->mean,
                            .deviation = scale_->deviation,
                            .training_mean = scale_->count > 0 ? std::optional(scale_->mean) : std::nullopt});
  }
  std::vector<Metric> metrics() const override {
    return {{.name = "loss",
             .help = labels_.are_contacts()
                         ? "cross-entropy per pair of residues, the mean over chains, in nats"
                     : labels_.are_numbers() ? "squared error over the variance of the training data"
                                             : "cross-entropy per label, in nats"}};
  }
  void report(const Report& report, const ReportSink& sink) const override {
    using What = labels::Predicted::What;
    labels::report_labels({.what = labels_.are_contacts()  ? What::kContacts
                                   : labels_.are_numbers() ? What::kNumbers
                                                           : What::kClasses,
                           .noun = labels_.are_contacts()  ? "chain"
                                   : labels_.are_numbers() ? "number"
                                                           : "label",
                           .accuracy = labels_.options().is_from_backbone() ? "Q3 (accuracy)" : "accuracy"},
                          report, sink);
  }
  std::vector<std::string> prediction_columns() const override { return label_files_of(*head())->columns(); }
  void predict(const ProteinBatch& batch, const Inference& inference,
               const PredictionSink& sink) const override {
    const LabelForm form = *head();
    const auto files = label_files_of(form);
    const bool draws = form.of == Of::kPairs && config().predict.pictures;
    const auto rows_of = [&](size_t i) { return sample_length(batch.split, batch.ids[i]); };
    inference.in_passes(batch.ids.size(), rows_of, [&](size_t begin, size_t end) {
      LabelPacker packer(form, *scale_);
      std::vector<proteins::Sample> samples;
      for (size_t i = begin; i < end; ++i) {
        const proteins::Sample& sample = samples.emplace_back(dataset().sample(batch.split, batch.ids[i]));
        packer.add(sample, all_rows(sample), nullptr);
      }
      const PackedProteins packed = batch_on(inference.device, packer.finish());
      ToldLabels told(packed, form, inference.model.labels(packed, inference.pass));
      for (size_t i = 0; i < samples.size(); ++i) {
        const uint64_t id = batch.ids[begin + i];
        const LabelledSample one{.sample = samples[i],
                                 .id = id,
                                 .name = dataset().name(batch.split, id),
                                 .file = draws ? dataset().file(batch.split, id) : "",
                                 .chain = dataset().chain_names(batch.split, id).front(),
                                 .labels = dataset().labels(batch.split, id),
                                 .predicted = told.next()};
        require_numbers(one.predicted, one.name, form.of == Of::kPairs ? "contacts" : "prediction");
        sink.row(id, files->row(one));
        files->write(one, sink);
      }
    });
  }

 private:
  void learn_scale() {
    const bool trains = context().run().purpose == PL_PURPOSE_TRAIN;
    if (trains && scale_ && scale_->where != labels_.where()) {
      context().warn("labels     the weights have learnt those of \"", scale_->where,
                     "\", and these are of \"", labels_.where(),
                     "\": what is learnt is found in the data again");
      scale_.reset();
    }
    records::LabelCounts counts;
    if (trains || !scale_) counts = dataset().label_counts();
    if (!scale_) {
      const std::vector<std::string>& named = config().label.classes;
      scale_ = counts.scale(named.empty() && labels_.options().is_from_backbone()
                                ? std::vector<std::string>{"H", "E", "C"}
                                : named);
      scale_->kind = labels_.kind();
      scale_->where = labels_.where();
    }
    counts.warn_of_words(labels_.where(), labels_.are_numbers(), context());
    if (labels_.are_numbers()) {
      scale_->classes.clear();
      context().info("labels     numbers, learnt as (number - ", scale_->mean, ") / ", scale_->deviation);
      return;
    }
    counts.check_classes(*scale_, context(), setting().errors);
    context().info("labels     ", scale_->classes.size(), " classes: ", records::quoted(scale_->classes));
  }
  const proteins::Labels labels_;
  std::optional<records::LabelScale> scale_;  // from the weights, or the training data
};

}  // namespace

std::unique_ptr<Objective> learnt_labels(const Setting& setting) {
  return std::make_unique<LabelObjective>(setting);
}

}  // namespace pipeline::tasks::protein
