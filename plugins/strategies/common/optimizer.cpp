#include "plugins/strategies/common/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <pipeline/error.hpp>

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>

namespace pipeline::strategies {
namespace {

void require(bool holds, const char* what, double value, const char* expected) {
  if (!holds) fail_with(PL_ERROR_CONFIG, "optimizer.", what, " = ", value, ": must be ", expected);
}

struct AdamWOptions {
  double beta1, beta2, epsilon, weight_decay;

  explicit AdamWOptions(const OptimizerRule& rule) {
    rule.require_options({"beta1", "beta2", "epsilon", "weight_decay"});
    beta1 = rule.option("beta1"), beta2 = rule.option("beta2"), epsilon = rule.option("epsilon");
    weight_decay = rule.option("weight_decay");
    require(beta1 >= 0 && beta1 < 1, "beta1", beta1, "at least 0 and below 1");
    require(beta2 >= 0 && beta2 < 1, "beta2", beta2, "at least 0 and below 1");
    require(epsilon > 0, "epsilon", epsilon, "above 0");
    require(weight_decay >= 0, "weight_decay", weight_decay, "0 or more");
  }
};

struct SgdOptions {
  double momentum, weight_decay;
  bool nesterov;

  explicit SgdOptions(const OptimizerRule& rule) {
    rule.require_options({"momentum", "nesterov", "weight_decay"});
    momentum = rule.option("momentum"), weight_decay = rule.option("weight_decay");
    nesterov = rule.option("nesterov") != 0;
    require(momentum >= 0 && std::isfinite(momentum), "momentum", momentum, "0 or more");
    require(!nesterov || momentum > 0, "momentum", momentum, "above 0 where optimizer.nesterov is true");
    require(weight_decay >= 0, "weight_decay", weight_decay, "0 or more");
  }
};

// Kernels that take a list of step counts take one scalar many times.
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<AdamWOptions> rules, at::Tensor master, int64_t begin, StateIn state_in)
      : Optimizer(std::move(master), begin, state_in, {"exp_avg", "exp_avg_sq"}), rules_(std::move(rules)) {}

 private:
  void apply(const Lists& lists, double learning_rate, uint32_t rule, const GradientScale& scale) override {
    const AdamWOptions& options = rules_.at(rule);
    const std::vector<at::Tensor> steps(lists.weights.size(), step_count());
    at::_fused_adamw_(lists.weights, lists.gradients, lists.state[0], lists.state[1], {}, steps,
                      learning_rate, options.beta1, options.beta2, options.weight_decay, options.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false, scale.divisor, scale.found_inf);
  }

  std::vector<AdamWOptions> rules_;
};

// Momentum starts at zero, so that the first update needs no special case: 0 x momentum + gradient is the
// gradient.
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<SgdOptions> rules, at::Tensor master, int64_t begin, StateIn state_in)
      : Optimizer(std::move(master), begin, state_in, state_kinds(rules)), rules_(std::move(rules)) {}

 private:
  static std::vector<std::string> state_kinds(const std::vector<SgdOptions>& rules) {
    const bool any = std::ranges::any_of(rules, [](const SgdOptions& rule) { return rule.momentum != 0; });
    return any ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }

  void apply(const Lists& lists, double learning_rate, uint32_t rule, const GradientScale& scale) override {
    const SgdOptions& options = rules_.at(rule);
    at::_fused_sgd_(lists.weights, lists.gradients,
                    options.momentum == 0 ? std::vector<at::Tensor>() : lists.state[0], options.weight_decay,
                    options.momentum, learning_rate, /*dampening=*/0, options.nesterov, /*maximize=*/false,
                    /*is_first_step=*/false, scale.divisor, scale.found_inf);
  }

  std::vector<SgdOptions> rules_;
};

template <class Options>
std::vector<Options> parse(const std::vector<OptimizerRule>& rules) {
  std::vector<Options> parsed;
  for (const OptimizerRule& rule : rules) parsed.emplace_back(rule);
  return parsed;
}

}  // namespace

std::unique_ptr<Optimizer> Optimizer::create(const std::vector<OptimizerRule>& rules, at::Tensor master,
                                             int64_t begin, StateIn state_in) {
  if (rules.empty()) fail("there is no optimizer");
  const std::string& name = rules.front().name;
  for (const OptimizerRule& rule : rules) {
    if (const uint32_t flags = rule.flags & ~(PL_OPTIMIZER_WHOLE_TENSORS | PL_FLAGS_MAY_IGNORE)) {
      fail_with(PL_ERROR_UNSUPPORTED, "optimizer ", rule.name, ": flags ", flags, " are not known");
    }
    if (rule.name != name) {
      fail_with(PL_ERROR_UNSUPPORTED, "optimizers ", name, " and ", rule.name,
                " in one run: this strategy has one rule for all parameters");
    }
  }
  if (name == "adamw")
    return std::make_unique<AdamW>(parse<AdamWOptions>(rules), std::move(master), begin, state_in);
  if (name == "sgd")
    return std::make_unique<Sgd>(parse<SgdOptions>(rules), std::move(master), begin, state_in);
  fail_with(PL_ERROR_UNSUPPORTED, "optimizer ", name, " is not known: use adamw or sgd");
}

Optimizer::Optimizer(at::Tensor master, int64_t begin, StateIn state_in,
                     const std::vector<std::string>& kinds)
    : master_(std::move(master)), begin_(begin), step_count_(at::zeros({}, master_.options())) {
  at::TensorOptions options = master_.options();
  if (state_in == StateIn::kPinnedHost) options = options.device(at::kCPU).pinned_memory(true);
  for (const std::string& kind : kinds) state_.push_back({kind, at::zeros(master_.sizes(), options)});
}

void Optimizer::advance(const GradientScale& scale) {
  step_count_.add_(1);
  if (scale.found_inf) step_count_.sub_(*scale.found_inf);
}

const Optimizer::Views& Optimizer::views_of(const GradientRun& run) {
  const int64_t offset = run.offset - begin_, count = run.gradient.numel();
  const auto [found, is_new] = views_.try_emplace({offset, count});
  if (is_new) {
    found->second.weights = master_.narrow(0, offset, count);
    for (const OptimizerState& state : state_)
      found->second.state.push_back(state.values.narrow(0, offset, count));
  }
  return found->second;
}

void Optimizer::update(const Group& group, const GradientRuns& runs, double learning_rate,
                       const GradientScale& scale) {
  Lists lists;
  lists.state.resize(state_.size());
  std::vector<std::vector<at::Tensor>> home(state_.size());  // the state where it is kept
  for (const GradientRun& run : runs) {
    if (run.gradient.numel() == 0) continue;
    const Views& views = views_of(run);
    lists.weights.push_back(views.weights);
    lists.gradients.push_back(run.gradient);
    for (size_t i = 0; i < state_.size(); ++i) {
      home[i].push_back(views.state[i]);
      lists.state[i].push_back(home[i].back().to(master_.device(), /*non_blocking=*/true));
    }
  }
  if (lists.weights.empty()) return;
  apply(lists, learning_rate * group.lr_multiplier, group.optimizer, scale);
  for (size_t i = 0; i < state_.size(); ++i) {
    for (size_t run = 0; run < home[i].size(); ++run) {
      const at::Tensor& updated = lists.state[i][run];
      if (!home[i][run].is_same(updated)) home[i][run].copy_(updated, /*non_blocking=*/true);
    }
  }
}

}  // namespace pipeline::strategies
