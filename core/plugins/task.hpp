#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugins/call.hpp"
#include "pipeline.h"

namespace pipeline::plugins {

class Task;

// A loaded batch and its facts. The destructor returns the batch to its task, which must outlive it.
// Movable between threads.
class Batch {
 public:
  Batch() = default;
  // Takes ownership of `handle`. Created by Task::load.
  Batch(const Task& task, pl_batch* handle, std::span<const uint64_t> ids);

  explicit operator bool() const { return handle_ != nullptr; }
  pl_batch* handle() const { return handle_.get(); }
  const pl_batch_info& info() const { return info_; }
  double weight() const { return info_.weight; }
  std::span<const uint64_t> ids() const { return ids_; }  // of its samples

 private:
  struct GiveBack {
    const Task* task;
    void operator()(pl_batch* batch) const noexcept;
  };

  std::unique_ptr<pl_batch, GiveBack> handle_;
  pl_batch_info info_{};
  std::vector<uint64_t> ids_;
};

// What load() loads; see pl_load_args.
struct LoadArgs {
  uint32_t split = PL_SPLIT_TRAIN;
  uint32_t purpose = PL_PURPOSE_TRAIN;
  std::span<const uint64_t> ids;
  uint64_t epoch = 0;
};

// A value of an evaluation: its sum and weight.
struct EvaluationValue {
  std::string group;  // the part of the data that it covers; empty: all
  std::string name;
  double sum = 0, weight = 0;
};

// What an evaluation recorded for one sample.
struct EvaluationRecord {
  uint64_t sample_id = 0;
  std::string key, bytes;
};

// Receives an evaluation's sums, records and samples worth reading.
struct EvaluationSink {
  std::function<void(EvaluationValue value)> value;
  std::function<void(EvaluationRecord record)> record;
  std::function<void(uint64_t sample_id, std::string_view text)> sample;
};

// Whether a task may use `name` for a file that accompanies a result. Names that begin with a dot belong to
// the host.
inline bool is_side_file_name(std::string_view name) {
  return !name.empty() && !name.starts_with('.') && name.find('/') == name.npos;
}

// The host's own file next to an evaluation's figures: no file of a report may have its name.
inline constexpr std::string_view kSumsFile = "sums.json";

// Receives what a report adds to an evaluation. A file's name is a plain file name, and is used once.
struct ReportSink {
  std::function<void(std::string_view name, double value, uint32_t better)> figure;
  std::function<void(std::string_view lines)> text;
  std::function<void(std::string_view name, std::span<const std::byte> bytes)> file;
};

// Receives a prediction's rows (the fields after the id), files, and what is behind in files that grow.
struct PredictionSink {
  using OnBytes =
      std::function<void(uint64_t sample_id, std::string_view name, std::span<const std::byte> bytes)>;
  std::function<void(uint64_t sample_id, std::span<const std::string_view> fields)> row;
  OnBytes file, append;
};

struct Metric {
  std::string name;
  std::string source;  // name of the value it is computed from
  std::string help;
  uint32_t aggregate = PL_AGGREGATE_MEAN;
  uint32_t better = PL_BETTER_LOWER;
};

// One of several losses; see pl_loss.
struct Loss {
  std::string name;
  uint64_t first = 1, every = 1;
  std::map<std::string, double> options;  // of the update rule, in place of the run's

  bool has_turn(uint64_t step) const { return step >= first && (step - first) % every == 0; }  // from 1
};

uint64_t element_count(const pl_parameter& parameter);
// Whether the value is bytes of the task's own; what a checkpoint calls a value in this form, and its shape.
inline bool is_coded(const pl_parameter& p) { return (p.form & (PL_FORM_INT8 | PL_FORM_NF4)) != 0; }
std::string_view value_kind(const pl_parameter& parameter);
std::vector<int64_t> stored_shape(const pl_parameter& parameter);

// A task object: one method per slot, which throws Error where the slot returns pl_error. `context` and
// `config` must outlive it. [main], except load() and the methods tagged otherwise.
class Task {
 public:
  Task(const Plugin& plugin, const pl_context& context, const pl_config* config);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const Plugin& plugin() const { return call_.plugin(); }
  pl_task* handle() const { return self_; }

  bool has_prepare() const { return api_.prepare; }
  void prepare();
  void open();
  // State that every checkpoint carries besides the parameters; empty: none. Call it after open.
  std::string extra_state() const;
  bool takes_extra_state() const { return api_.set_extra_state; }
  void set_extra_state(std::string_view state);  // before prepare

  uint64_t sample_count(uint32_t split) const;
  bool has_sample_costs() const { return api_.sample_costs; }
  void sample_costs(uint32_t split, std::span<const uint64_t> ids,
                    std::span<double> out) const;  // [any-thread]
  std::string data_fingerprint() const;            // empty: the task has none
  Batch load(const LoadArgs& args) const;          // [any-thread]

  // All parameters, read once and checked: unique names, shapes, units. Strings and shapes live as long as
  // the task.
  const std::vector<pl_parameter>& parameters();
  // From now on `parameters` asks strategies to keep what is frozen in `form` (PL_FORM_...), where the task
  // takes it so, and what it takes in bfloat16 alone in that. Returns how many elements are in `form`.
  uint64_t keep_frozen_in(uint32_t form);
  void initialize(uint64_t index, std::span<float> out);
  // The value of a parameter whose form is of 8 or 4 bits, of form_bytes: `values`, or, if empty, the initial
  // one.
  void encode(uint64_t index, std::span<const float> values, std::span<std::byte> out);
  bool has_import_model() const { return api_.import_model; }
  void import_model(const std::filesystem::path& folder);
  void bind(uint64_t index, const pl_tensor& value, const pl_tensor& grad);
  bool has_unit_hooks() const { return api_.set_unit_hooks; }
  void set_unit_hooks(const pl_unit_hooks& hooks);

  // Several losses, read once and checked; empty: there is one, of all parameters. Call it after open.
  const std::vector<Loss>& losses();
  // Bits of those that have no turn in a step, which counts from 0.
  uint64_t idle_losses(uint64_t step);
  uint64_t busiest_step();  // the first one in which the most have a turn

  // Whether a sample's loss depends on the outputs of all samples of the step (pl.global-outputs/1).
  bool has_global_outputs();
  // Room for the outputs of `rows` samples, (rows, K), checked; valid until the next call.
  pl_tensor make_room(uint64_t rows);
  // Sets struct_size of `args` itself.
  void write_outputs(const Batch& batch, pl_outputs_args args);

  // Returns a view of the loss sum, valid until the next train(). Sets struct_size of `args` itself.
  pl_tensor train(const Batch& batch, pl_train_args args);
  void evaluate(const Batch& batch, pl_evaluate_args args, const EvaluationSink& sink);
  std::vector<Metric> metrics() const;  // besides the loss; empty: none
  bool has_report() const { return api_.report; }
  // Does nothing if the task has no report. Does not require open().
  void report(uint32_t split, uint32_t purpose, std::span<const EvaluationValue> values,
              std::span<const EvaluationRecord> records, const ReportSink& sink);
  bool has_predict() const { return api_.predict; }
  std::vector<std::string> prediction_columns() const;
  // [any-thread] The id's digits if the task names no samples.
  std::string sample_name(uint32_t split, uint64_t sample_id) const;
  // Throws unless each sample of the batch gets one row, with a field for each column.
  void predict(const Batch& batch, pl_evaluate_args args, const PredictionSink& sink);
  // Does nothing if the task has no such slot; of the sink, `file` is called.
  void finish_predictions(uint32_t split, const std::string& folder, const PredictionSink& sink);
  bool has_reply() const { return api_.reply; }
  // The answer to a conversation, a JSON array of messages, in pieces. What on_text throws comes out here.
  void reply(std::string_view messages, const std::function<void(std::string_view piece)>& on_text);
  std::optional<double> flops(const Batch& batch) const;  // nullopt: not known
  bool has_export_model() const { return api_.export_model; }
  void export_model(const std::filesystem::path& folder);

 private:
  friend class Batch;

  void require_work_for_losses(const std::vector<pl_parameter>& parameters);
  const pl_global_outputs* global_outputs() const;
  std::optional<bool> has_global_outputs_;  // once asked

  const pl_task_api& api_;
  Caller call_;
  pl_task* self_ = nullptr;
  std::vector<pl_parameter> parameters_;
  std::optional<std::vector<Loss>> losses_;  // once asked
  uint64_t busiest_step_ = 0;
};

}  // namespace pipeline::plugins
