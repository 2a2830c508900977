#include "tests/strategies/strategy_run.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>
#include <test_paths.hpp>

#include "core/config/config.hpp"
#include "tests/strategies/ranks.hpp"
#include "tests/strategies/tensors.hpp"

namespace pipeline::strategies {
namespace {

pl_str str(const std::string& text) { return {text.data(), text.size()}; }

// Ranks are threads, and loading is the main thread's.
const plugins::Plugin& load_plugin(const std::string& name) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return plugins::Plugin::load(std::string(PIPELINE_BUILD_DIR) + "/lib/pipeline/plugins/strategies/" + name +
                               ".so");
}

pl_config make_config(const RunOptions& options) {
  config::LoadArgs load;
  load.sets = options.sets;
  load.sets.emplace_back("task.plugin=\"none\"");  // a configuration must name one
  load.sets.push_back("strategy.plugin=\"" + options.plugin + "\"");
  return config::load(load).plugin("strategy", load_plugin(options.plugin).options());
}

std::string label(const pl_piece& piece) {
  const std::string kind(piece.kind.ptr, piece.kind.len);
  return piece.parameter.len == 0 ? kind : kind + "/" + std::string(piece.parameter.ptr, piece.parameter.len);
}

// Elements of the whole tensor, whatever the piece has of it.
size_t element_count(const pl_piece& piece) {
  size_t count = 1;
  for (uint32_t d = 0; d < piece.ndim; ++d) count *= static_cast<size_t>(piece.shape[d]);
  return count;
}

// memcpy that takes NULL for no bytes, which is where an empty tensor is.
void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

struct Owned {
  at::Tensor tensor;
  int* live;
};

}  // namespace

plugins::Optimizer adamw(double weight_decay) {
  return {"adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", weight_decay}}};
}

plugins::Optimizer in_bits(plugins::Optimizer adamw, int bits) {
  adamw.options["state_bits"] = bits;
  return adamw;
}

plugins::Optimizer muon() {
  plugins::Optimizer optimizer = adamw();
  optimizer.of_hidden_matrices.push_back(
      {"muon", {{"momentum", 0.95}, {"steps", 5}, {"weight_decay", 0.1}}, PL_OPTIMIZER_WHOLE_TENSORS});
  return optimizer;
}

plugins::Optimizer with_ema(plugins::Optimizer optimizer, double every, double start) {
  const auto add = [&](plugins::Optimizer& to) {
    to.options.insert({{"ema_decay", 0.9}, {"ema_every", every}, {"ema_start", start}});
  };
  add(optimizer);
  for (plugins::Optimizer& other : optimizer.of_hidden_matrices) add(other);
  return optimizer;
}

plugins::Optimizer sgd(double momentum, double weight_decay, bool nesterov) {
  return {"sgd", {{"momentum", momentum}, {"nesterov", nesterov ? 1 : 0}, {"weight_decay", weight_decay}}};
}

StrategyRun::StrategyRun(std::vector<ParameterSpec> specs, const plugins::Optimizer& optimizer,
                         const RunOptions& options)
    : specs_(std::move(specs)), device_(options.device), config_(make_config(options)) {
  pl_run_info run{};
  run.struct_size = sizeof run;
  run.purpose = options.purpose;
  run.flags = options.reproducible ? PL_RUN_REPRODUCIBLE : 0;
  run.threads = static_cast<uint32_t>(at::get_num_threads());
  run.world_size = run.local_world_size = options.group ? options.group->world_size : options.world_size;
  run.rank = run.local_rank = options.group ? options.group->rank : 0;
  run.device = device_of(options.device);
  run.stream = options.stream;
  run.parameter_dtype = run.compute_dtype = dtype_of(options.dtype);
  run.micro_batches = options.micro_batches;
  context_.set_run_info(run);
  if (peers::Peers* peers = this_ranks_peers()) {
    plugins::give_exchange(context_, *peers);
    context_.open_group = [this, part = options.part_group](std::string_view name,
                                                            const std::vector<int32_t>& members) {
      const pl_communicator& group =
          part_groups_.emplace_back(std::make_unique<PartGroup>(name, members))->view();
      return part ? part(name, group) : group;
    };
  }
  std::vector<pl_parameter> parameters;
  for (const ParameterSpec& spec : specs_) {
    pl_parameter parameter{};
    parameter.struct_size = sizeof parameter;
    parameter.flags = (spec.trainable ? PL_PARAMETER_TRAINABLE : 0) | (spec.decay ? PL_PARAMETER_DECAY : 0) |
                      (spec.hidden ? PL_PARAMETER_HIDDEN_MATRIX : 0);
    parameter.ndim = static_cast<uint32_t>(spec.shape.size());
    parameter.shape = spec.shape.data();
    parameter.name = str(spec.name);
    parameter.unit = spec.unit;
    parameter.lr_multiplier = spec.lr_multiplier;
    if (spec.narrow) parameter.form = PL_FORM_BFLOAT16;
    parameter.loss = spec.loss;
    parameters.push_back(parameter);
  }
  const uint32_t last = specs_.empty() ? 0 : std::ranges::max(specs_, {}, &ParameterSpec::loss).loss;
  const std::vector<plugins::Optimizer> of_losses(last + 1, optimizer);
  strategy_ = std::make_unique<plugins::Strategy>(load_plugin(options.plugin), context_, &config_, parameters,
                                                  of_losses, options.group);
}

StrategyRun::~StrategyRun() = default;

at::Tensor StrategyRun::value(size_t index) { return tensor_of(strategy_->storage(index).value); }

void StrategyRun::set(size_t index, const at::Tensor& new_value) {
  State values = state();
  const at::Tensor flat = new_value.to(at::kFloat).contiguous();
  copy(values.at("value/" + specs_[index].name).data(), flat.data_ptr(), flat.nbytes());
  load(values, true);
}

void StrategyRun::hand_over(size_t index, at::Tensor gradient) {
  const auto owned = new Owned{std::move(gradient), &live_};
  ++live_;
  const pl_tensor tensor = view_of(owned->tensor);
  pl_gradient sent{};
  sent.struct_size = sizeof sent;
  sent.index = index;
  sent.tensor = &tensor;
  sent.owner = owned;
  sent.release = [](void* owner) {
    const std::unique_ptr<Owned> freed(static_cast<Owned*>(owner));
    --*freed->live;
  };
  strategy_->gradient_ready(sent);
}

void StrategyRun::lend(size_t index, const at::Tensor& gradient) {
  const pl_tensor tensor = view_of(gradient);
  pl_gradient sent{};
  sent.struct_size = sizeof sent;
  sent.index = index;
  sent.tensor = &tensor;
  strategy_->gradient_ready(sent);
}

void StrategyRun::add_rows(size_t index, const at::Tensor& rows, const at::Tensor& values) {
  pl_tensor tensor = view_of(values), which = view_of(rows);
  pl_gradient sent{};
  sent.struct_size = sizeof sent;
  sent.index = index;
  sent.tensor = &tensor;
  sent.rows = &which;
  strategy_->gradient_ready(sent);
}

void StrategyRun::deliver(size_t index, const at::Tensor& made, bool lent) {
  const at::Tensor gradient = made.to(device_);
  const pl_tensor bound = strategy_->storage(index).grad;
  if (!bound.data && lent) return lend(index, gradient.clone());
  if (!bound.data) return hand_over(index, gradient.clone());
  const at::Tensor sum = tensor_of(bound);
  sum.add_(gradient);
  lend(index, sum);
}

void StrategyRun::end_micro_batch(const at::Tensor& made) {
  if (!made.defined()) return strategy_->end_micro_batch(nullptr);
  const at::Tensor loss = made.to(device_);
  const pl_tensor tensor = view_of(loss);
  strategy_->end_micro_batch(&tensor);
}

pl_step_args StrategyRun::step_args(double learning_rate, double clip_norm, double inverse_scale) {
  pl_step_args args{};
  args.struct_size = sizeof args;
  args.learning_rate = learning_rate;
  args.clip_norm = clip_norm;
  args.inverse_scale = inverse_scale;
  return args;
}

void StrategyRun::deliver(const MicroBatch& micro_batch) {
  std::vector<size_t> order = micro_batch.order;
  if (order.empty()) {
    for (size_t i = micro_batch.gradients.size(); i-- > 0;) order.push_back(i);
  }
  const auto one = [&](const Gradients& gradients, size_t index) {
    if (index < gradients.size() && gradients[index].defined())
      deliver(index, gradients[index], micro_batch.lent);
  };
  for (const size_t index : order) one(micro_batch.gradients, index);
  for (size_t index = 0; index < micro_batch.again.size(); ++index) one(micro_batch.again, index);
}

uint64_t StrategyRun::start_step(const std::vector<MicroBatch>& micro_batches, const pl_step_args& args) {
  strategy_->begin_step(micro_batches.size());
  for (const MicroBatch& micro_batch : micro_batches) {
    deliver(micro_batch);
    end_micro_batch(micro_batch.loss);
  }
  return strategy_->step(args);
}

pl_step_report StrategyRun::step(const std::vector<Gradients>& micro_batches, double learning_rate,
                                 double clip_norm, double inverse_scale) {
  strategy_->begin_step(micro_batches.size());
  for (const Gradients& gradients : micro_batches) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) hand_over(i, gradients[i].clone());
    }
    end_micro_batch(at::ones({}));
  }
  return strategy_->collect(strategy_->step(step_args(learning_rate, clip_norm, inverse_scale)));
}

State StrategyRun::state_of(const plugins::Snapshot& snapshot) {
  State state;
  snapshot.pieces([&](const pl_piece& piece) {
    const bool narrow = piece.dtype.code == PL_DTYPE_BFLOAT;
    const size_t width = narrow ? sizeof(float) : piece.dtype.bits / 8u;
    std::vector<std::byte>& tensor = state[label(piece)];
    tensor.resize(element_count(piece) * width);
    if (narrow) {
      const auto* from = static_cast<const c10::BFloat16*>(piece.data);
      std::copy_n(from, piece.count, reinterpret_cast<float*>(tensor.data()) + piece.offset);
    } else {
      copy(tensor.data() + piece.offset * width, piece.data, piece.count * width);
    }
  });
  return state;
}

void StrategyRun::load(const State& state, bool values_only) {
  strategy_->load_state(
      [&](const pl_piece& piece, void* destination) {
        const auto found = state.find(label(piece));
        if (found == state.end()) throw Error(PL_ERROR_CONFIG, label(piece) + ": is not in this state");
        const size_t width = piece.dtype.bits / 8u;
        copy(destination, found->second.data() + piece.offset * width, piece.count * width);
      },
      values_only);
}

Gradients random_gradients(const std::vector<ParameterSpec>& specs, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  Gradients gradients;
  for (const ParameterSpec& spec : specs) {
    gradients.push_back(spec.trainable ? at::randn(spec.shape, generator, at::kFloat) : at::Tensor());
  }
  return gradients;
}

State some_values(const std::vector<ParameterSpec>& specs) {
  StrategyRun run(specs, adamw());
  for (size_t i = 0; i < specs.size(); ++i)
    run.set(i, random_gradients({{specs[i].name, specs[i].shape}}, i)[0]);
  return run.state();
}

}  // namespace pipeline::strategies
