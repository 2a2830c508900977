#include "plugins/strategies/common/optimizer.hpp"

#include <cmath>
#include <utility>

#include <pipeline/error.hpp>

namespace pipeline::strategies {
namespace {

// Kernels that take a list of step counts take one scalar many times.
class AdamW : public Optimizer {
 public:
  AdamW(const pl_optimizer_args& args, at::Tensor master, int64_t begin, StateIn state_in)
      : Optimizer(args, std::move(master), begin, state_in, {"exp_avg", "exp_avg_sq"}) {}

 private:
  void apply(const Lists& lists, double learning_rate, double weight_decay,
             const GradientScale& scale) override {
    const std::vector<at::Tensor> steps(lists.weights.size(), step_count());
    at::_fused_adamw_(lists.weights, lists.gradients, lists.state[0], lists.state[1], {}, steps,
                      learning_rate, args_.beta1, args_.beta2, weight_decay, args_.epsilon, /*amsgrad=*/false,
                      /*maximize=*/false, scale.divisor, scale.found_inf);
  }
};

// Momentum starts at zero, so that the first update needs no special case: 0 x momentum + gradient is the
// gradient.
class Sgd : public Optimizer {
 public:
  Sgd(const pl_optimizer_args& args, at::Tensor master, int64_t begin, StateIn state_in)
      : Optimizer(args, std::move(master), begin, state_in,
                  args.momentum != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{}) {}

 private:
  void apply(const Lists& lists, double learning_rate, double weight_decay,
             const GradientScale& scale) override {
    at::_fused_sgd_(lists.weights, lists.gradients,
                    state().empty() ? std::vector<at::Tensor>() : lists.state[0], weight_decay,
                    args_.momentum, learning_rate, /*dampening=*/0,
                    (args_.flags & PL_OPTIMIZER_NESTEROV) != 0, /*maximize=*/false, /*is_first_step=*/false,
                    scale.divisor, scale.found_inf);
  }
};

void require(bool holds, const char* what, double value, const char* expected) {
  if (!holds) fail_with(PL_ERROR_CONFIG, "optimizer.", what, " = ", value, ": must be ", expected);
}

}  // namespace

std::unique_ptr<Optimizer> Optimizer::create(const pl_optimizer_args& args, at::Tensor master, int64_t begin,
                                             StateIn state_in) {
  if ((args.flags & ~PL_OPTIMIZER_NESTEROV) != 0) {
    fail_with(PL_ERROR_UNSUPPORTED, "optimizer flags ", args.flags, ": this plugin knows ",
              PL_OPTIMIZER_NESTEROV);
  }
  require(args.weight_decay >= 0, "weight_decay", args.weight_decay, "0 or more");
  switch (args.kind) {
    case PL_OPTIMIZER_ADAMW:
      require(args.beta1 >= 0 && args.beta1 < 1, "beta1", args.beta1, "at least 0 and below 1");
      require(args.beta2 >= 0 && args.beta2 < 1, "beta2", args.beta2, "at least 0 and below 1");
      require(args.epsilon > 0, "epsilon", args.epsilon, "above 0");
      return std::make_unique<AdamW>(args, std::move(master), begin, state_in);
    case PL_OPTIMIZER_SGD: {
      require(args.momentum >= 0 && std::isfinite(args.momentum), "momentum", args.momentum, "0 or more");
      const bool nesterov = (args.flags & PL_OPTIMIZER_NESTEROV) != 0;
      require(!nesterov || args.momentum > 0, "momentum", args.momentum,
              "above 0 where optimizer.nesterov is true");
      return std::make_unique<Sgd>(args, std::move(master), begin, state_in);
    }
    default:
      fail_with(PL_ERROR_UNSUPPORTED, "optimizer kind ", args.kind,
                ": this plugin knows AdamW (1) and SGD (2)");
  }
}

Optimizer::Optimizer(const pl_optimizer_args& args, at::Tensor master, int64_t begin, StateIn state_in,
                     const std::vector<std::string>& kinds)
    : args_(args), master_(std::move(master)), begin_(begin), step_count_(at::zeros({}, master_.options())) {
  at::TensorOptions options = master_.options();
  if (state_in == StateIn::kPinnedHost) options = options.device(at::kCPU).pinned_memory(true);
  for (const std::string& kind : kinds) state_.push_back({kind, at::zeros(master_.sizes(), options)});
}

void Optimizer::advance(const GradientScale& scale) {
  step_count_.add_(1);
  if (scale.found_inf) step_count_.sub_(*scale.found_inf);
}

void Optimizer::update(const Group& group, const GradientRuns& runs, double learning_rate,
                       const GradientScale& scale) {
  Lists lists;
  lists.state.resize(state_.size());
  std::vector<std::vector<at::Tensor>> home(state_.size());  // the state where it is kept
  for (const GradientRun& run : runs) {
    const int64_t offset = run.offset - begin_;
    const int64_t count = run.gradient.numel();
    if (count == 0) continue;
    lists.weights.push_back(master_.narrow(0, offset, count));
    lists.gradients.push_back(run.gradient);
    for (size_t i = 0; i < state_.size(); ++i) {
      home[i].push_back(state_[i].values.narrow(0, offset, count));
      lists.state[i].push_back(home[i].back().to(master_.device(), /*non_blocking=*/true));
    }
  }
  if (lists.weights.empty()) return;
  apply(lists, learning_rate * group.lr_multiplier, group.decay ? args_.weight_decay : 0, scale);
  for (size_t i = 0; i < state_.size(); ++i) {
    for (size_t run = 0; run < home[i].size(); ++run) {
      const at::Tensor& updated = lists.state[i][run];
      if (!home[i][run].is_same(updated)) home[i][run].copy_(updated, /*non_blocking=*/true);
    }
  }
}

}  // namespace pipeline::strategies
