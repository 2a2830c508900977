// AdamW (Loshchilov and Hutter, arXiv 1711.05101) by PyTorch's fused kernel: one pass over weights, gradients
// and state, which also scales the gradients.
#include "plugins/strategies/common/rules/update_rule.hpp"

#include <ATen/ops/_fused_adamw.h>

namespace pipeline::strategies {
namespace {

class AdamW : public UpdateRule {
 public:
  explicit AdamW(const OptimizerRule& rule) {
    rule.require_options({"beta1", "beta2", "epsilon", "weight_decay"});
    beta1_ = rule.option("beta1"), beta2_ = rule.option("beta2"), epsilon_ = rule.option("epsilon");
    weight_decay_ = rule.option("weight_decay");
    require_option(beta1_ >= 0 && beta1_ < 1, "beta1", beta1_, "at least 0 and below 1");
    require_option(beta2_ >= 0 && beta2_ < 1, "beta2", beta2_, "at least 0 and below 1");
    require_option(epsilon_ > 0, "epsilon", epsilon_, "above 0");
    require_option(weight_decay_ >= 0, "weight_decay", weight_decay_, "0 or more");
  }

  std::vector<std::string> kinds() const override { return {"exp_avg", "exp_avg_sq"}; }

  void apply(const Update& update) const override {
    // Kernels that take a list of step counts take one scalar many times.
    const std::vector<at::Tensor> steps(update.weights.size(), update.step_count);
    at::_fused_adamw_(update.weights, update.gradients, update.state[0], update.state[1], {}, steps,
                      update.learning_rate, beta1_, beta2_, weight_decay_, epsilon_, /*amsgrad=*/false,
                      /*maximize=*/false, update.scale.divisor, update.scale.found_inf);
  }

 private:
  double beta1_, beta2_, epsilon_, weight_decay_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_adamw(const OptimizerRule& options) {
  return std::make_unique<AdamW>(options);
}

}  // namespace pipeline::strategies
