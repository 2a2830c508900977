// A task: data, model and loss. This is the half without LibTorch; a task on LibTorch is far shorter with
// pipeline/torch/task.hpp, which implements most of this.
//
//   struct Batch { std::vector<float> x, y; };
//   class Line : public pipeline::Task<LineConfig, Batch> {
//    public:
//     using Task::Task;
//     ...
//   };
//   PIPELINE_TASK(Line, "line", "1.0.0", "Fits a line")
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/plugin.hpp>
#include <pipeline/task_types.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

PIPELINE_SDK_BEGIN

// BatchT is what load() returns and train() receives; it is moved, never copied. Const methods may be
// called from any thread, also concurrently; all others are called on the main thread. A method marked
// (optional) is offered to the host only if it is overridden. Order of calls: constructor,
// [set_extra_state], [prepare], open, [extra_state], [import_model], parameters, initialize*, bind*, then
// work. Throw Error to report a failure.
template <class ConfigT, class BatchT>
class Task : public Object<ConfigT> {
 public:
  using Interface = Task;
  using Config = ConfigT;
  using Batch = BatchT;
  using Setup = pipeline::Setup<ConfigT>;

  // A task that calls its unit hooks redeclares this as true; only then is set_unit_hooks offered.
  static constexpr bool kHasUnits = false;
  // A task whose samples' losses depend on all samples of the step redeclares this as true; only then are
  // make_room and write_outputs offered. On LibTorch: pipeline/torch/global_loss.hpp.
  static constexpr bool kHasGlobalLoss = false;
  // A task with the same bits on any number of threads (PL_RUNTIME_SAME_ON_ANY_THREADS) redeclares this as
  // true. LibTorch's products, its layer norm and its sums of more than 32,768 values depend on the number.
  static constexpr bool kIsSameOnAnyThreads = false;

  // Reads options; touches no data.
  explicit Task(Setup setup) : Object<ConfigT>(std::move(setup)) {}

  // (optional) Downloads, parses and tokenizes data into run().cache_dir. Called in one process at a time;
  // reuses finished work.
  virtual void prepare() {}
  // Opens data and builds the model.
  virtual void open() = 0;
  // (optional, both or neither) State that the parameters depend on and the options do not determine, such
  // as a vocabulary built from data. Every checkpoint carries it, and a run that starts from one gets it
  // back.
  virtual std::string extra_state() { return ""; }
  virtual void set_extra_state(std::string_view /*state*/) {}

  // Data.
  virtual uint64_t sample_count(Split split) const = 0;  // 0: no such split
  // (optional) Relative cost, e.g. tokens, for grouping similar samples.
  virtual double sample_cost(Split /*split*/, uint64_t /*id*/) const { return 1; }
  // (optional) Identifies the data's content.
  virtual std::string data_fingerprint() { return ""; }
  virtual Batch load(const LoadRequest& request) const = 0;
  virtual BatchInfo batch_info(const Batch& batch) const = 0;

  // Parameters.
  virtual std::vector<Parameter> parameters() = 0;
  // Writes the initial value of parameter `index` into `out`: host memory, float32, contiguous.
  virtual void initialize(uint64_t index, pl_tensor& out) = 0;
  // (optional, both or neither) For parameters whose forms have PL_FORM_INT8 or PL_FORM_NF4: the bytes that
  // the value takes, and writes it so; values: host, float32, contiguous; null: the initial ones.
  virtual uint64_t form_bytes(uint64_t /*index*/, uint32_t /*form*/) { return 0; }
  virtual void encode_value(uint64_t /*index*/, uint32_t /*form*/, const pl_tensor* /*values*/,
                            std::byte* /*out*/) {}
  // (optional) Reads initial values from another tool's folder. A single error lists all missing,
  // unexpected and mis-shaped tensors.
  virtual void import_model(const std::filesystem::path& /*folder*/) {}
  // Sets the storage of parameter `index`. The views are valid during the call, their memory until this
  // object is destroyed. grad.data == NULL: gradients are handed over.
  virtual void bind(uint64_t index, const pl_tensor& value, const pl_tensor& grad) = 0;
  // (offered with kHasUnits) `hooks` is valid until this object is destroyed.
  virtual void set_unit_hooks(const pl_unit_hooks& /*hooks*/) {}

  // (offered with kHasGlobalLoss) Called once a step, before its first train(), unless one batch is the whole
  // step. Returns room for the outputs of its `rows` samples, (rows, K), float32, contiguous, on the run's
  // device, which lasts until the next step's.
  virtual pl_tensor make_room(uint64_t /*rows*/) { return {}; }
  // (offered with kHasGlobalLoss) Writes the outputs of a batch, a row a sample, without gradients.
  virtual void write_outputs(const Batch& /*batch*/, const OutputsArgs& /*args*/) {}

  // Work. Forward and backward; returns a view of the loss sum, valid until the next train().
  virtual pl_tensor train(const Batch& batch, const TrainArgs& args) = 0;
  // Sends at least the value "loss" to `sink`.
  virtual void evaluate(const Batch& batch, EvaluationSink& sink) = 0;
  // (optional) Figures besides the loss.
  virtual std::vector<Metric> metrics() { return {}; }
  // (optional) What an evaluation reports beyond means: intervals, tables, pictures. Called on all ranks
  // with the same values, and must produce the same on each. Also called with the sums of several
  // evaluations, on an object that was not opened: use only `report` and config().
  virtual void report(const Report& /*report*/, const ReportSink& /*sink*/) {}
  // (optional, all three or none) A prediction is a table: its columns after the id; the id of a sample;
  // the rows of a batch.
  virtual std::vector<std::string> prediction_columns() { return {}; }
  virtual std::string sample_name(Split /*split*/, uint64_t id) const { return std::to_string(id); }
  virtual void predict(const Batch& /*batch*/, const PredictionSink& /*sink*/) {}
  // (optional) Makes further files of all that was predicted of a split, which is in `folder`: by sink.file
  // with id 0, or, where one is large, it gives an empty one and then writes it itself. Behind the last
  // sample, on rank 0 alone.
  virtual void finish_predictions(Split /*split*/, const std::filesystem::path& /*folder*/,
                                  const PredictionSink& /*sink*/) {}
  // (optional) Writes the answer to a conversation, a JSON array of {"role", "content"}, piece by piece. The
  // content is text, or a list of {"type": "text", "text"} and {"type": "image", "path"}.
  virtual void reply(std::string_view /*messages*/, const ReplySink& /*sink*/) {}
  // (optional) Floating-point operations of forward and backward.
  virtual double flops(const Batch& /*batch*/) { return 0; }
  // (optional) Writes the bound values into an existing, empty folder, in a form that other tools load.
  virtual void export_model(const std::filesystem::path& /*folder*/) {}

  // Called by the table. A base class that prepares each call, as TorchTask does, redeclares them.
  void run_evaluate(const Batch& batch, EvaluationSink& sink) { evaluate(batch, sink); }
  void run_predict(const Batch& batch, const PredictionSink& sink) { predict(batch, sink); }
  void run_reply(std::string_view messages, const ReplySink& sink) { reply(messages, sink); }
};

PIPELINE_SDK_END

#include <pipeline/task_table.hpp>

#define PIPELINE_TASK(Class, plugin_name, plugin_version, plugin_summary) \
  PIPELINE_ENTRY(::pipeline::TaskTable<Class>, plugin_name, plugin_version, plugin_summary)
