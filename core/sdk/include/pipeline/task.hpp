// A task: data, model and loss. This is the half without LibTorch; a model of LibTorch modules is far shorter
// over pipeline/torch/task.hpp, which implements most of this.
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
#include <pipeline/object.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/plugin.hpp>
#include <pipeline/task_types.hpp>

#include <filesystem>
#include <string>
#include <vector>

PIPELINE_SDK_BEGIN

// BatchT is what load() makes and train() gets; it is moved, never copied. Methods that are const may be
// called from any thread, also concurrently; all others come from the main thread. A method marked
// (optional) is offered to the host only when it is overridden. Order of calls: constructor,
// [set_extra_state], [prepare], open, [extra_state], [import_model], parameters, initialize*, bind*, then
// work. Throw Error to report a failure.
template <class ConfigT, class BatchT>
class Task : public Object<ConfigT> {
 public:
  using Interface = Task;
  using Config = ConfigT;
  using Batch = BatchT;
  using Setup = pipeline::Setup<ConfigT>;

  // Redeclared as true by a task that calls its unit hooks; only then is set_unit_hooks offered.
  static constexpr bool kHasUnits = false;

  // Reads options, touches no data.
  explicit Task(Setup setup) : Object<ConfigT>(std::move(setup)) {}

  // (optional) Downloads, parses, tokenizes into run().cache_dir; one process at a time. Finds finished
  // work.
  virtual void prepare() {}
  // Opens data and builds the model.
  virtual void open() = 0;
  // (optional, both or none) What the parameters mean nothing without and the options do not give again, such
  // as a vocabulary that was made from data: every checkpoint carries it, and a run that starts from one gets
  // it back.
  virtual std::string extra_state() { return ""; }
  virtual void set_extra_state(std::string_view /*state*/) {}

  // Data.
  virtual uint64_t sample_count(Split split) const = 0;  // 0: no such split
  // (optional) Relative cost, e.g. tokens, for grouping alike samples.
  virtual double sample_cost(Split /*split*/, uint64_t /*id*/) const { return 1; }
  // (optional) Identifies the data's content.
  virtual std::string data_fingerprint() { return ""; }
  virtual Batch load(const LoadRequest& request) const = 0;
  virtual BatchInfo batch_info(const Batch& batch) const = 0;

  // Parameters.
  virtual std::vector<Parameter> parameters() = 0;
  // Writes the initial value of parameter `index` into `out`: host, float32, contiguous.
  virtual void initialize(uint64_t index, pl_tensor& out) = 0;
  // (optional) Initial values from a folder of another tool. One error lists all missing, unexpected and
  // mis-shaped tensors.
  virtual void import_model(const std::filesystem::path& /*folder*/) {}
  // The storage of parameter `index`; the views are valid during the call, their memory until this object
  // goes. grad.data == NULL: gradients are handed over.
  virtual void bind(uint64_t index, const pl_tensor& value, const pl_tensor& grad) = 0;
  // (offered with kHasUnits) `hooks` is valid until this object goes.
  virtual void set_unit_hooks(const pl_unit_hooks& /*hooks*/) {}

  // Work. Forward and backward; returns a view of the loss sum, valid until the next train().
  virtual pl_tensor train(const Batch& batch, const TrainArgs& args) = 0;
  // At least the value "loss".
  virtual void evaluate(const Batch& batch, EvaluationSink& sink) = 0;
  // (optional) Figures besides the loss.
  virtual std::vector<Metric> metrics() { return {}; }
  // (optional) What an evaluation says beyond means: intervals, tables, pictures. On all ranks with the same
  // values; they must yield the same. Also with those of several evaluations added up, and then on an object
  // that was not opened: use `report` and config() alone.
  virtual void report(const Report& /*report*/, const ReportSink& /*sink*/) {}
  // (optional, all three or none) Columns of a prediction's table after the id; the id of a sample; its rows.
  virtual std::vector<std::string> prediction_columns() { return {}; }
  virtual std::string sample_name(Split /*split*/, uint64_t id) const { return std::to_string(id); }
  virtual void predict(const Batch& /*batch*/, const PredictionSink& /*sink*/) {}
  // (optional) Floating-point operations of forward and backward.
  virtual double flops(const Batch& /*batch*/) { return 0; }
  // (optional) Writes the bound values into an existing, empty folder, as other tools load them.
  virtual void export_model(const std::filesystem::path& /*folder*/) {}

  // What the table calls; a base class that prepares each call, as TorchTask does, has its own.
  void run_evaluate(const Batch& batch, EvaluationSink& sink) { evaluate(batch, sink); }
  void run_predict(const Batch& batch, const PredictionSink& sink) { predict(batch, sink); }
};

PIPELINE_SDK_END

#include <pipeline/task_table.hpp>

#define PIPELINE_TASK(Class, plugin_name, plugin_version, plugin_summary) \
  PIPELINE_ENTRY(::pipeline::TaskTable<Class>, plugin_name, plugin_version, plugin_summary)
