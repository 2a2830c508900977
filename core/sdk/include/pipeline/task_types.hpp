// Arguments and results of a Task's methods.
#pragma once

#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/tensor.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

PIPELINE_SDK_BEGIN

enum class Split : uint32_t { kTrain = PL_SPLIT_TRAIN, kVal = PL_SPLIT_VAL, kTest = PL_SPLIT_TEST };

inline Split to_split(uint32_t code) {
  if (PL_CODE(code) > PL_SPLIT_TEST) fail_with(PL_ERROR_UNSUPPORTED, "split ", code, " is not known");
  return static_cast<Split>(PL_CODE(code));
}

enum class Purpose : uint32_t {
  kTrain = PL_PURPOSE_TRAIN,
  kEvaluate = PL_PURPOSE_EVALUATE,
  kPredict = PL_PURPOSE_PREDICT,
  kExport = PL_PURPOSE_EXPORT,
  kValidate = PL_PURPOSE_VALIDATE,
};

inline Purpose to_purpose(uint32_t code) {
  if (PL_CODE(code) < PL_PURPOSE_TRAIN || PL_CODE(code) > PL_PURPOSE_VALIDATE)
    fail_with(PL_ERROR_UNSUPPORTED, "purpose ", code, " is not known");
  return static_cast<Purpose>(PL_CODE(code));
}

struct LoadRequest {
  Split split;
  Purpose purpose;                // training may mask or augment, prediction must not need targets
  std::span<const uint64_t> ids;  // each < sample_count(split)
  uint64_t epoch;                 // random choices must depend on (seed, epoch, sample id) alone
};

struct BatchInfo {
  double weight = 0;       // what the loss sum is divided by, e.g. target tokens; may be 0
  uint64_t samples = 0;    // in the batch
  uint64_t tokens = 0;     // useful positions; 0: not applicable
  uint64_t positions = 0;  // positions computed, padding included
};

// Receives finished gradients.
class GradientSink {
 public:
  explicit GradientSink(const pl_gradient_sink* sent) : raw_(receive(sent)) {
    require_known_flags("the gradient sink", raw_.flags, PL_GRADIENTS_IN_ROWS);
  }

  // `gradient` is the bound gradient, now complete, or, with an owner, a tensor that now belongs to the
  // strategy, which calls release(owner) once, from any thread, even if this throws. `stream`: on which it
  // is complete. One call at a time.
  void ready(uint64_t index, const pl_tensor& gradient, pl_stream stream = kNoStream, void* owner = nullptr,
             void (*release)(void*) = nullptr) const {
    send(index, gradient, nullptr, stream, owner, release);
  }

  // True if the strategy sends gradients during the backward pass. A parameter's gradient may then come in
  // parts, each as soon as it is ready: dense parts first, parts that touch a few rows through add_rows().
  bool takes_rows() const { return (raw_.flags & PL_GRADIENTS_IN_ROWS) != 0; }
  // Adds `values`, (K, ...), to the rows `rows`, (K) int64, of the gradient; borrows both for the call.
  // Only if takes_rows().
  void add_rows(uint64_t index, const pl_tensor& rows, const pl_tensor& values,
                pl_stream stream = kNoStream) const {
    send(index, values, &rows, stream, nullptr, nullptr);
  }

 private:
  void send(uint64_t index, const pl_tensor& gradient, const pl_tensor* rows, pl_stream stream, void* owner,
            void (*release)(void*)) const {
    auto message = sized<pl_gradient>();
    message.index = index;
    message.tensor = &gradient;
    message.rows = rows;
    message.stream = stream;
    message.owner = owner;
    message.release = release;
    check(raw_.ready(raw_.user, &message));
  }

  pl_gradient_sink raw_;
};

struct TrainArgs {
  explicit TrainArgs(const pl_train_args& args)
      : scale(args.scale),
        seed(args.seed),
        step(args.step),
        micro_batch(args.micro_batch),
        gradients(args.gradients),
        outputs(args.outputs),
        first_row(args.first_row) {}

  double scale;          // backward starts from (loss sum x scale)
  uint64_t seed;         // for dropout
  uint64_t step;         // 0-based optimizer step
  uint64_t micro_batch;  // index in the global batch
  GradientSink gradients;
  // With kHasGlobalLoss: the outputs of all samples of the step, and the row of this batch's first. Null:
  // this batch is the whole step.
  const pl_tensor* outputs;
  uint64_t first_row;
};

// What TrainArgs will say of a batch whose outputs are asked for before the step is trained.
struct OutputsArgs {
  explicit OutputsArgs(const pl_outputs_args& args)
      : seed(args.seed), step(args.step), micro_batch(args.micro_batch), first_row(args.first_row) {}

  uint64_t seed;         // for dropout
  uint64_t step;         // 0-based optimizer step
  uint64_t micro_batch;  // index in the global batch
  uint64_t first_row;    // of the batch's samples, in the order of their ids
};

// How an evaluation's value becomes a figure.
struct Metric {
  std::string name;
  std::string help;
  std::string source = "";                 // the value it is computed from; empty: `name`
  uint32_t aggregate = PL_AGGREGATE_MEAN;  // PL_AGGREGATE_...
  uint32_t better = PL_BETTER_LOWER;       // PL_BETTER_...
};

// Receives an evaluation's sums.
class EvaluationSink {
 public:
  EvaluationSink(const pl_evaluation_sink* sent, const pl_evaluate_args& args)
      : raw_(receive(sent)), purpose_(to_purpose(args.purpose)), left_(args.samples_to_show) {}

  Purpose purpose() const { return purpose_; }
  // "loss" and the values that metrics() describes become figures; report() gets them all.
  void value(std::string_view name, double sum, double weight) const { value_of("", name, sum, weight); }
  // A sum over one part of the data, `group`, for report(). A group is named by its content and must not be
  // in two evaluations that are added up.
  void value_of(std::string_view group, std::string_view name, double sum, double weight) const {
    check(raw_.value(raw_.user, str(group), str(name), sum, weight));
  }
  // Bytes that belong to a sample of this batch, for report(): what sums cannot express.
  void record(uint64_t id, std::string_view key, std::string_view bytes) const {
    check(raw_.record(raw_.user, id, str(key), bytes.data(), bytes.size()));
  }

  // How many more samples to show from this batch.
  uint64_t samples_left() const { return left_; }
  // A sample worth reading, as text of any number of lines. Ignored when no more are wanted.
  void sample(uint64_t id, std::string_view text) {
    if (left_ == 0) return;
    --left_;
    check(raw_.sample(raw_.user, id, str(text)));
  }

 private:
  pl_evaluation_sink raw_;
  Purpose purpose_;
  uint64_t left_;
};

// A value of a finished evaluation, over all of its samples.
struct EvaluationValue {
  std::string_view group;  // empty: all of the data
  std::string_view name;
  double sum;
  double weight;
};

// What evaluate() recorded for one sample.
struct EvaluationRecord {
  uint64_t sample_id;
  std::string_view key;
  std::string_view bytes;
};

// The input of Task::report(). Values are in the order in which they first came, records are sorted by
// sample and key. When several evaluations are added up there are no records.
struct Report {
  Split split;
  Purpose purpose;
  std::span<const EvaluationValue> values;
  std::span<const EvaluationRecord> records;
};

// What a report adds to an evaluation.
class ReportSink {
 public:
  explicit ReportSink(const pl_report_sink* sent) : raw_(receive(sent)) {}

  void figure(std::string_view name, double value, uint32_t better = PL_BETTER_LOWER) const {
    check(raw_.figure(raw_.user, str(name), value, better));
  }
  // Lines for the log.
  void text(std::string_view lines) const { check(raw_.text(raw_.user, str(lines))); }
  // A file, kept next to the figures of a full evaluation. `name` is a plain file name.
  void file(std::string_view name, std::string_view bytes) const {
    check(raw_.file(raw_.user, str(name), bytes.data(), bytes.size()));
  }

 private:
  pl_report_sink raw_;
};

// Receives predictions: table rows, in any order within a batch, and files that accompany the table.
class PredictionSink {
 public:
  explicit PredictionSink(const pl_prediction_sink* sent) : raw_(receive(sent)) {}

  // `fields`: one for each of prediction_columns().
  void row(uint64_t id, const std::vector<std::string>& fields) const {
    std::vector<pl_str> views;
    for (const std::string& field : fields) views.push_back(str(field));
    check(raw_.row(raw_.user, id, views.data(), views.size()));
  }
  void file(uint64_t id, std::string_view name, std::string_view bytes) const {
    check(raw_.file(raw_.user, id, str(name), bytes.data(), bytes.size()));
  }
  // Adds bytes at the end of a file that grows in the order of the samples.
  void append(uint64_t id, std::string_view name, std::string_view bytes) const {
    if (raw_.append == nullptr)
      fail_with(PL_ERROR_UNSUPPORTED, "the host has no files that grow with predictions: use a newer one");
    check(raw_.append(raw_.user, id, str(name), bytes.data(), bytes.size()));
  }

 private:
  pl_prediction_sink raw_;
};

// Receives an answer of Task::reply() in pieces.
class ReplySink {
 public:
  explicit ReplySink(const pl_reply_sink* sent) : raw_(receive(sent)) {}

  // Sends a piece, which is made of whole characters.
  void text(std::string_view piece) const { check(raw_.text(raw_.user, str(piece))); }

 private:
  pl_reply_sink raw_;
};

PIPELINE_SDK_END
