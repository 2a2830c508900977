// Ours: the plugin ddp over a backend plugin, bound and fed as a task does it.
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <ATen/ops/from_blob.h>

#include <cstring>

#include "core/config/config.hpp"
#include "core/config/settings.hpp"
#include "core/plugins/strategy.hpp"
#include "job.hpp"

namespace bench {
namespace {

using namespace pipeline;

const plugins::Plugin& load(const std::string& file) {
  return plugins::Plugin::load(std::string(BENCH_PLUGINS) + '/' + file + ".so");
}

pl_config config_for(const char* kind, const plugins::Plugin& plugin, const std::string& set) {
  std::vector<std::string> sets{"task.plugin=none", std::string(kind) + ".plugin=" + plugin.name()};
  if (!set.empty()) sets.push_back(set);
  return config::load({.file = "", .sets = sets}).plugin(kind, plugin.options());
}

plugins::Optimizer adamw() {
  return {"adamw", {{"beta1", kBeta1}, {"beta2", kBeta2}, {"epsilon", kEpsilon}, {"weight_decay", kDecay}}};
}

pl_tensor view(const at::Tensor& tensor, pl_dtype dtype = {PL_DTYPE_FLOAT, 32, 1}) {
  pl_tensor out{};
  out.data = tensor.data_ptr();
  out.device = {PL_DEVICE_CPU, 0};
  out.ndim = static_cast<int32_t>(tensor.dim());
  out.dtype = dtype;
  out.shape = const_cast<int64_t*>(tensor.sizes().data());
  return out;
}

void hand_over(plugins::Strategy& strategy, uint64_t index, const at::Tensor& whole) {
  auto owned = std::make_unique<at::Tensor>(whole.contiguous());
  const pl_tensor tensor = view(*owned);
  pl_gradient gradient{};
  gradient.struct_size = sizeof gradient;
  gradient.index = index;
  gradient.tensor = &tensor;
  gradient.owner = owned.release();
  gradient.release = [](void* owner) { delete static_cast<at::Tensor*>(owner); };
  strategy.gradient_ready(gradient);
}

void add_rows(plugins::Strategy& strategy, uint64_t index, const at::Tensor& which,
              const at::Tensor& values) {
  const at::Tensor lent_rows = which.contiguous(), lent_values = values.contiguous();
  const pl_tensor rows = view(lent_rows, {PL_DTYPE_INT, 64, 1}), tensor = view(lent_values);
  pl_gradient gradient{};
  gradient.struct_size = sizeof gradient;
  gradient.index = index;
  gradient.tensor = &tensor;
  gradient.rows = &rows;
  strategy.gradient_ready(gradient);
}

// Hands a finished gradient over, if it has not been in parts.
struct Hook : torch::autograd::PostAccumulateGradHook {
  Hook(plugins::Strategy& to, uint64_t which) : strategy(to), index(which) {}
  void operator()(const at::Tensor& parameter) override {
    if (!parameter.grad().defined()) return;
    const at::Tensor gradient = parameter.grad();
    parameter.mutable_grad().reset();
    hand_over(strategy, index, gradient);
  }
  plugins::Strategy& strategy;
  uint64_t index;
};

class Ours : public Contestant {
 public:
  explicit Ours(const Job& job)
      : job_(job),
        peers_(world_of(job.place), {}),
        model_(make_model(job)),
        backend_(load("backends/" + job.backend)),
        plugin_(load("strategies/ddp")),
        backend_config_(config_for("backend", backend_, "")),
        plugin_config_(config_for("strategy", plugin_, job.set)) {
    pl_run_info run{};
    run.struct_size = sizeof run;
    run.purpose = PL_PURPOSE_TRAIN;
    run.threads = static_cast<uint32_t>(job.threads);
    run.rank = run.local_rank = job.place.rank;
    run.world_size = run.local_world_size = job.place.ranks;
    run.device = {PL_DEVICE_CPU, 0};
    run.parameter_dtype = run.compute_dtype = {PL_DTYPE_FLOAT, 32, 1};
    run.micro_batches = static_cast<uint64_t>(job.place.ranks);
    context_.set_run_info(run);
    plugins::give_exchange(context_, peers_);
    group_ = std::make_unique<plugins::Communicator>(backend_, context_, &backend_config_,
                                                     open_args(job.place, "bench"));
    create_strategy();
    bind();
  }

  std::string name() const override { return "ours over " + job_.backend; }

  double step(const Batch& batch) override {
    strategy_->begin_step(1);
    ForwardPass pass{.scale = 1 / batch.weight};
    if (strategy_->info().flags & PL_STRATEGY_TAKES_ROWS) {
      pass.deliver = [this](const at::Tensor&, const at::Tensor& gradient) {
        hand_over(*strategy_, embedding_, gradient);
      };
      pass.deliver_rows = [this](const at::Tensor&, const at::Tensor& rows, const at::Tensor& values) {
        add_rows(*strategy_, embedding_, rows, values);
      };
    }
    const auto loss = model_->loss(batch.packed, pass);
    loss.scaled.backward();
    const pl_tensor sum = view(loss.sum);
    strategy_->end_micro_batch(&sum);
    pl_step_args args{};
    args.learning_rate = kRate;
    args.clip_norm = job_.clip;
    args.inverse_scale = 1;
    return strategy_->collect(strategy_->step(args)).loss_sum / batch.weight;
  }

 private:
  void create_strategy() {
    std::vector<pl_parameter> parameters;
    const ParameterRegistry& list = model_->parameters();
    for (const Parameter& parameter : list) parameters.push_back(parameter.raw());
    const plugins::Optimizer optimizer = adamw();
    strategy_ = std::make_unique<plugins::Strategy>(plugin_, context_, &plugin_config_, parameters,
                                                    std::span(&optimizer, 1), &group_->view());
    const auto read = [&](const pl_piece& piece, void* destination) {
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].name != std::string_view(piece.parameter.ptr, piece.parameter.len)) continue;
        std::memcpy(destination, list[i].tensor.const_data_ptr<float>() + piece.offset,
                    piece.count * sizeof(float));
      }
    };
    strategy_->load_state(read, true);
  }

  void bind() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parameters = tensors_of(*model_);
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].set_data(
          at::from_blob(strategy_->storage(i).value.data, parameters[i].sizes(), at::kFloat));
      if (parameters[i].is_same(model_->token_embedding())) embedding_ = i;
      torch::autograd::impl::set_post_acc_grad_hooks(parameters[i], std::make_unique<Hook>(*strategy_, i));
    }
  }

  Job job_;
  peers::Peers peers_;
  std::unique_ptr<language::LanguageModel> model_;
  const plugins::Plugin& backend_;
  const plugins::Plugin& plugin_;
  pl_config backend_config_, plugin_config_;
  pl_context context_{"bench_ddp"};
  std::unique_ptr<plugins::Communicator> group_;
  std::unique_ptr<plugins::Strategy> strategy_;
  uint64_t embedding_ = 0;  // the parameter that is also the output head
};

}  // namespace

std::unique_ptr<Contestant> ours(const Job& job) { return std::make_unique<Ours>(job); }

}  // namespace bench
