// What the methods of a Task are given and give back.
#pragma once

#include <pipeline/host.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline {
inline namespace [[gnu::visibility("hidden")]] sdk_v1 {

enum class Split : uint32_t { kTrain = PL_SPLIT_TRAIN, kVal = PL_SPLIT_VAL, kTest = PL_SPLIT_TEST };

inline Split to_split(uint32_t code) {
  if (code > PL_SPLIT_TEST) fail_with(PL_ERROR_UNSUPPORTED, "split ", code, " is not known");
  return static_cast<Split>(code);
}

enum class Purpose : uint32_t {
  kTrain = PL_PURPOSE_TRAIN,
  kEvaluate = PL_PURPOSE_EVALUATE,
  kPredict = PL_PURPOSE_PREDICT,
  kExport = PL_PURPOSE_EXPORT,
  kValidate = PL_PURPOSE_VALIDATE,
};

inline Purpose to_purpose(uint32_t code) {
  if (code < PL_PURPOSE_TRAIN || code > PL_PURPOSE_VALIDATE) {
    fail_with(PL_ERROR_UNSUPPORTED, "purpose ", code, " is not known");
  }
  return static_cast<Purpose>(code);
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
  uint64_t tokens = 0;     // useful positions; 0: there is no such thing
  uint64_t positions = 0;  // positions computed, padding included
};

// Where finished gradients go.
class GradientSink {
 public:
  explicit GradientSink(const pl_gradient_sink* sent) : raw_(receive(sent)) {}

  // The gradient that was bound is complete, or, with an owner, a tensor that now belongs to the strategy,
  // which calls release(owner) once, from any thread, also when this throws. One call at a time.
  void ready(uint64_t index, const pl_tensor& gradient, void* stream = nullptr, void* owner = nullptr,
             void (*release)(void*) = nullptr) const {
    send(index, gradient, nullptr, stream, owner, release);
  }

  // The strategy sends gradients during the backward pass: a parameter's may come in parts, each as soon as
  // it is there, what is dense first, and by add_rows() what touches a few rows.
  bool takes_rows() const { return (raw_.flags & PL_GRADIENTS_IN_ROWS) != 0; }
  // values: (K, ...), lent for the call, are added to the rows (K) int64 of the gradient. Only if
  // takes_rows().
  void add_rows(uint64_t index, const pl_tensor& rows, const pl_tensor& values,
                void* stream = nullptr) const {
    send(index, values, &rows, stream, nullptr, nullptr);
  }

 private:
  void send(uint64_t index, const pl_tensor& gradient, const pl_tensor* rows, void* stream, void* owner,
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
        stream(args.stream),
        gradients(args.gradients) {}

  double scale;          // backward starts from (loss sum x scale)
  uint64_t seed;         // for dropout
  uint64_t step;         // 0-based optimizer step
  uint64_t micro_batch;  // index in the global batch
  void* stream;          // device stream to work on; NULL on CPU
  GradientSink gradients;
};

// How a value of the evaluation becomes a figure.
struct Metric {
  std::string name;
  std::string help;
  std::string source = "";                 // the value it is computed from; empty: its own name
  uint32_t aggregate = PL_AGGREGATE_MEAN;  // PL_AGGREGATE_...
  uint32_t better = PL_BETTER_LOWER;       // PL_BETTER_...
};

// Where an evaluation's sums go.
class EvaluationSink {
 public:
  // `metrics`: of the task, whose sources every host needs.
  EvaluationSink(const pl_evaluation_sink* sent, const pl_evaluate_args& args, std::span<const Metric> metrics = {})
      : raw_(receive(sent)),
        purpose_(to_purpose(args.purpose)),
        left_(args.sample_limit),
        stream_(args.stream),
        metrics_(metrics) {}

  Purpose purpose() const { return purpose_; }
  void* stream() const { return stream_; }
  // A name that begins with '.': for report() and for metrics() that are computed from it, and no figure itself.
  // One ".unit/KEY/NAME" is of a part of the data that belongs in one evaluation alone: see pl_evaluation_sink.
  void value(std::string_view name, double sum, double weight) const {
    if (!is_of_use(name)) return;
    check(raw_.value(raw_.user, str(name), sum, weight));
  }

  // How many more samples are to be shown in this batch.
  uint64_t samples_left() const { return left_; }
  // A sample worth reading, as text of any number of lines. Ignored when no more are wanted.
  void sample(uint64_t id, std::string_view text) {
    if (left_ == 0) return;
    --left_;
    check(raw_.sample(raw_.user, id, str(text)));
  }

 private:
  // A host before 1.3 asks for no report, and makes a figure of every value. Without a host, as in a test of a
  // part, all values are.
  bool is_of_use(std::string_view name) const {
    const bool older_host = host().struct_size > 0 && host().abi_minor < 3;
    return !older_host || !name.starts_with('.') ||
           std::any_of(metrics_.begin(), metrics_.end(), [&](const Metric& metric) { return metric.source == name; });
  }

  pl_evaluation_sink raw_;
  Purpose purpose_;
  uint64_t left_;
  void* stream_;
  std::span<const Metric> metrics_;
};

// A value of a finished evaluation, over all of its samples.
struct EvaluationValue {
  std::string_view name;
  double sum;
  double weight;
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
  // Kept of a full evaluation, beside its figures. A plain file name.
  void file(std::string_view name, std::string_view bytes) const {
    check(raw_.file(raw_.user, str(name), bytes.data(), bytes.size()));
  }

 private:
  pl_report_sink raw_;
};

// Where predictions go: rows of submission.csv, in any order within a batch, and files beside it.
class PredictionSink {
 public:
  PredictionSink(const pl_prediction_sink* sent, const pl_evaluate_args& args)
      : raw_(receive(sent)), stream_(args.stream) {}

  void* stream() const { return stream_; }
  // `fields`: as many as prediction_columns().
  void row(uint64_t id, const std::vector<std::string>& fields) const {
    std::vector<pl_str> views;
    for (const std::string& field : fields) views.push_back(str(field));
    check(raw_.row(raw_.user, id, views.data(), views.size()));
  }
  void file(uint64_t id, std::string_view name, std::string_view bytes) const {
    check(raw_.file(raw_.user, id, str(name), bytes.data(), bytes.size()));
  }

 private:
  pl_prediction_sink raw_;
  void* stream_;
};

}  // namespace gnu::visibility("hidden")]]sdk_v1
}  // namespace pipeline
