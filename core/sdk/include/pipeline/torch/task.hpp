// A task on LibTorch: the author writes a module, a data set and a loss. plugins/template is the smallest
// complete example.
#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/task.hpp>
#include <pipeline/torch/autocast.hpp>
#include <pipeline/torch/batch.hpp>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>
#include <pipeline/torch/parameters.hpp>
#include <pipeline/torch/profiler.hpp>
#include <pipeline/torch/random.hpp>
#include <pipeline/torch/runtime.hpp>
#include <pipeline/torch/units.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ParallelGuard.h>

#include <concepts>
#include <memory>
#include <string>
#include <vector>

PIPELINE_SDK_BEGIN

// A model's tensors that are not parameters: constants such as masks. Checkpoints do not contain them, so
// training must not change them.
class Buffers {
 public:
  void add(const std::string& name, at::Tensor& tensor, c10::Device device) {
    if (!tensor.defined()) return;
    if (tensor.device() != device) tensor.set_data(tensor.to(device));
    buffers_.push_back({name, tensor, tensor._version()});
  }

  void check_unchanged() const {
    for (const Buffer& buffer : buffers_) {
      if (buffer.tensor._version() == buffer.version) continue;
      fail("buffer ", buffer.name,
           " was changed in training, and no checkpoint would have it: make it a parameter, or use a layer ",
           "without running statistics, e.g. LayerNorm or GroupNorm in place of BatchNorm");
    }
  }

 private:
  struct Buffer {
    std::string name;
    at::Tensor tensor;
    int64_t version;
  };
  std::vector<Buffer> buffers_;
};

template <class T>
concept DeclaresParameters = requires(T& model) {
  { model.parameters() } -> std::same_as<ParameterRegistry&>;
};

// named_parameters() yields torch's OrderedDict items or pairs of (name, tensor).
template <class T>
concept HasNamedParameters = requires(T& model) {
  model.named_parameters();
};

template <class Items, class F>
void for_each_named(Items&& items, F&& visit) {
  for (auto&& item : items) {
    if constexpr (requires { item.key(); }) {
      visit(item.key(), item.value());
    } else {
      visit(item.first, item.second);
    }
  }
}

template <class Model>
void set_training(Model& model, bool on) {
  if constexpr (requires { model.train(on); }) model.train(on);
}

// ConfigT: see options.hpp. ModelT: see DeclaresParameters. BatchT: a struct of tensors, see batch.hpp.
// Besides the pure virtual methods here an author writes sample_count() and batch_info(), and any of the
// optional methods of Task: metrics, predict and its two companions, sample_cost, data_fingerprint, flops,
// import_model, export_model, prepare. loss, train_batch, evaluate and predict get their batch on the run's
// device.
template <class ConfigT, class ModelT, class BatchT>
class TorchTask : public Task<ConfigT, BatchT> {
  static_assert(HasNamedParameters<ModelT> || DeclaresParameters<ModelT>,
                "a model needs named_parameters(), or a ParameterRegistry as parameters(): see "
                "DeclaresParameters in pipeline/torch/task.hpp");
  static_assert(NamesTensors<BatchT>,
                "a batch needs tensors(visit), which visits its tensors: see pipeline/torch/batch.hpp");

 public:
  using typename Task<ConfigT, BatchT>::Batch;
  using Model = ModelT;
  using Task<ConfigT, BatchT>::Task;

  // A task with extensions of its own ends its query() with this one.
  static const void* query(std::string_view extension) {
    return extension == PL_EXTENSION_RUNTIME ? runtime_extension() : nullptr;
  }

  // Opens the data. [main]
  virtual void open_data() = 0;
  // Returns a new model, on the CPU. A module initialises itself from torch's seeded default generator.
  virtual std::shared_ptr<ModelT> build_model() = 0;
  // Reads samples into a batch in host memory. Called on worker threads, ahead of time. Random choices must
  // come from make_generator(context().seed("...", request.epoch, id)).
  virtual BatchT make_batch(const LoadRequest& request) const = 0;
  // Forward pass. In training, autograd must lead from the result back to the parameters. pass() holds what
  // a model may need besides the batch.
  virtual LossSum loss(const Batch& batch) = 0;

  // Overrides the defaults of a model that has named parameters and declares none: weight decay on tensors
  // of two or more dimensions, unit 0, learning rate x 1, trainable if requires_grad.
  virtual void describe_parameter(Parameter& /*parameter*/) {}
  // Forward and backward. Override it if a loss and autograd are not enough. Gradients leave through
  // backward() or deliver().
  virtual LossSum train_batch(const Batch& batch, const TrainArgs& args) {
    LossSum result = forward(batch);
    backward(result, args.scale);
    return result;
  }
  // Sends the loss to `sink`; an override adds its own values and samples and calls this one.
  void evaluate(const Batch& batch, EvaluationSink& sink) override {
    const LossSum result = loss(batch);
    check_loss(result);
    sink.value("loss", result.sum.template item<double>(), this->batch_info(batch).weight);
  }

  // For the methods above.
  ModelT& model() { return *model_; }
  c10::Device device() const { return device_; }
  bool is_training() const { return training_; }
  // The model runs its layers through this. If it does, and its parameters have their units, redeclare
  // kHasUnits as true.
  Units& units() { return units_; }
  // What the model may need to know in loss() and in an evaluation. The default generators are already
  // seeded with the batch's seed.
  const ForwardPass& pass() const { return pass_; }
  // Runs loss() in the run's precision. Call backward() after it, not inside: it uses the recorded dtypes.
  LossSum forward(const Batch& batch) {
    const TraceScope trace("forward");
    const AutocastScope scope(autocast_);
    return loss(batch);
  }
  void backward(const LossSum& loss_sum, double scale) {
    const TraceScope trace("backward");
    check_loss(loss_sum);
    const bool is_scaled = loss_sum.scaled.defined();
    const at::Tensor& root = is_scaled ? loss_sum.scaled : loss_sum.sum;
    if (!root.requires_grad()) fail("the loss does not lead back to any parameter");
    root.backward(is_scaled ? at::Tensor() : at::full({}, scale, root.options()));
    units_.finish_backward();
  }
  // A figure for this step's line of metrics.jsonl: `sum` is a scalar on the device, read one step later.
  void metric(std::string_view name, const at::Tensor& sum, double weight) const {
    const at::Tensor kept = sum.detach();
    this->context().metric(name, to_pl(kept), weight);
  }
  // Delivers a gradient that was computed without autograd.
  void deliver(const at::Tensor& parameter, at::Tensor gradient) {
    parameters_.deliver(parameter, std::move(gradient));
  }
  // Delivers a part of a gradient that touches a few rows: adds `values`, (K, ...), to the rows `rows`, (K)
  // int64. Only if TrainArgs::gradients.takes_rows(); other parts may come before and after it.
  void deliver_rows(const at::Tensor& parameter, const at::Tensor& rows, const at::Tensor& values) {
    parameters_.deliver_rows(parameter, rows, values);
  }

  // Runs `f` on a batch as train() would with this seed, but without gradients.
  template <class F>
  void without_backward(const Batch& batch, uint64_t seed, F&& f) {
    prepare_pass(true);
    seed_default_generators(device_, seed);
    pass_.dropout_seed = seed;
    const at::NoGradGuard no_grad;
    const TraceScope trace("outputs");
    const AutocastScope scope(autocast_);
    on_device(batch, f);
  }

  // ----------------------------------------------------------- implements Task; not called by authors

  void open() final {
    apply_run_settings(this->context());
    device_ = open_device(this->run());
    autocast_ = Autocast::for_compute(device_.type(), to_torch(this->run().compute_dtype));
    autocast_.enabled &= !kOwnPrecision<ModelT>;
    units_.set_device(device_);
    units_.set_checkpointing(this->context().activation_checkpointing());
    open_data();
    seed_default_generators(device_, this->context().seed("initialize"));
    model_ = build_model();
    if (model_ == nullptr) fail("build_model() returned no model");
    if constexpr (DeclaresParameters<ModelT>) {
      model_->parameters().set_exports_float32(this->context().exports_float32());
      for (const ParameterRegistry::Declared& p : model_->parameters()) parameters_.add(p, p.tensor);
    } else {
      for_each_named(model_->named_parameters(),
                     [&](const std::string& name, const at::Tensor& t) { parameters_.add(name, t); });
    }
    if constexpr (requires { model_->named_buffers(); }) {
      for_each_named(model_->named_buffers(),
                     [&](const std::string& name, at::Tensor& t) { buffers_.add(name, t, device_); });
    }
    set_training(*model_, true);
  }

  BatchT load(const LoadRequest& request) const final {
    const at::NoGradGuard no_grad;
    const c10::ParallelGuard one_thread(true);  // the cores belong to the training thread
    BatchT batch = make_batch(request);
    if (device_.is_cuda() && this->context().pin_memory()) pin_batch(batch);
    return batch;
  }

  std::vector<Parameter> parameters() final {
    std::vector<Parameter> result;
    for (uint64_t i = 0; i < parameters_.size(); ++i) {
      describe_parameter(parameters_.info(i));
      result.push_back(parameters_.info(i));
    }
    return result;
  }
  void initialize(uint64_t index, pl_tensor& out) final {
    const at::NoGradGuard no_grad;
    at::Tensor tensor = to_torch(out);
    if constexpr (DeclaresParameters<ModelT>) {
      model_->parameters().initialize(index, this->context().seed("initialize"), tensor);
    } else {
      tensor.copy_(parameters_.tensor(index));
    }
  }
  void bind(uint64_t index, const pl_tensor& value, const pl_tensor& grad) final {
    parameters_.bind(index, value, grad, coding_of(index));
  }
  uint64_t form_bytes(uint64_t index, uint32_t form) final {
    return required_coding(index).bytes(parameters_.info(index), form);
  }
  void encode_value(uint64_t index, uint32_t form, const pl_tensor* values, std::byte* out) final {
    const at::NoGradGuard no_grad;
    const Coding& coding = required_coding(index);
    if (values != nullptr) return coding.encode(parameters_.info(index), form, to_torch(*values), out);
    if constexpr (DeclaresParameters<ModelT>)
      model_->parameters().initialize_coded(index, this->context().seed("initialize"), form, out);
  }
  void set_unit_hooks(const pl_unit_hooks& hooks) final { units_.set_hooks(&hooks); }

  pl_tensor train(const Batch& batch, const TrainArgs& args) final {
    prepare_pass(true);
    const typename ParameterTable::Delivery delivery(parameters_, args.gradients);
    seed_default_generators(device_, args.seed);
    pass_.dropout_seed = args.seed;
    pass_.scale = args.scale;
    if (args.gradients.takes_rows()) {
      pass_.deliver = [this](const at::Tensor& p, at::Tensor g) { parameters_.deliver(p, std::move(g)); };
      pass_.deliver_rows = [this](const at::Tensor& p, const at::Tensor& rows, const at::Tensor& values) {
        parameters_.deliver_rows(p, rows, values);
      };
    }
    try {
      loss_ = on_device(batch, [&](const Batch& b) { return train_batch(b, args); }).sum.detach();
    } catch (...) {
      units_.abandon();
      throw;
    }
    buffers_.check_unchanged();
    if (this->context().activation_checkpointing() && !units_.used())
      fail_with(PL_ERROR_CONFIG,
                "train.activation_checkpointing is on, but this task does not run its layers through "
                "units(): switch it off");
    return to_pl(loss_);
  }
  void run_evaluate(const Batch& batch, EvaluationSink& sink) {
    without_gradients([&] { on_device(batch, [&](const Batch& b) { this->evaluate(b, sink); }); });
  }
  void run_predict(const Batch& batch, const PredictionSink& sink) {
    without_gradients([&] { on_device(batch, [&](const Batch& b) { this->predict(b, sink); }); });
  }
  void run_reply(std::string_view messages, const ReplySink& sink) {
    without_gradients([&] { this->reply(messages, sink); });
  }

 private:
  const Coding* coding_of(uint64_t index) const {
    if constexpr (DeclaresParameters<ModelT>) return model_->parameters()[index].coding.get();
    return nullptr;
  }
  const Coding& required_coding(uint64_t index) {
    const Coding* const coding = coding_of(index);
    if (coding == nullptr) fail(parameters_.info(index).name, " has no form of 8 or 4 bits");
    return *coding;
  }

  void prepare_pass(bool training) {
    if (!checked_) parameters_.check_bound();
    checked_ = true;
    if (training_ != training) set_training(*model_, training);
    training_ = training;
    pass_ = {.training = training, .compute = to_torch(this->run().compute_dtype), .units = &units_};
  }

  // On the CPU a batch is used in place.
  template <class F>
  auto on_device(const Batch& batch, F&& f) {
    if (device_.is_cpu()) return f(batch);
    return f(batch_on(device_, batch));
  }

  template <class F>
  void without_gradients(F&& f) {
    prepare_pass(false);
    seed_default_generators(device_, this->context().seed("evaluate"));
    const AutocastScope scope(autocast_);
    if (this->run().purpose == PL_PURPOSE_TRAIN) {
      const at::NoGradGuard no_grad;  // tensors that the model keeps may be used with autograd later
      f();
    } else {
      const c10::InferenceMode inference;
      f();
    }
  }

  static void check_loss(const LossSum& loss) {
    if (!loss.sum.defined()) fail("loss() returned no tensor");
    if (loss.sum.dim() != 0)
      fail("loss() returned shape ", name_of(shape_of(loss.sum)), ", expected the sum, a scalar");
    if (loss.sum.scalar_type() != at::kFloat && loss.sum.scalar_type() != at::kDouble)
      fail("loss() returned ", at::toString(loss.sum.scalar_type()),
           ", expected a sum in float32 or float64");
  }

  c10::Device device_{c10::kCPU};
  Autocast autocast_;
  std::shared_ptr<ModelT> model_;
  ParameterTable parameters_;  // destroyed before the model
  Buffers buffers_;
  Units units_;
  at::Tensor loss_;
  ForwardPass pass_;
  bool training_ = true;
  bool checked_ = false;
};

PIPELINE_SDK_END
