// SGD as PyTorch has it, by its fused kernel. Momentum starts at zero, so that the first update needs no
// special case: 0 x momentum + gradient is the gradient.
#include "plugins/strategies/common/rules/update_rule.hpp"

#include <cmath>

#include <ATen/ops/_fused_sgd.h>

namespace pipeline::strategies {
namespace {

class Sgd : public UpdateRule {
 public:
  explicit Sgd(const OptimizerRule& rule) {
    rule.require_options({"momentum", "nesterov", "weight_decay"});
    momentum_ = rule.option("momentum"), weight_decay_ = rule.option("weight_decay");
    nesterov_ = rule.option("nesterov") != 0;
    require_option(momentum_ >= 0 && std::isfinite(momentum_), "momentum", momentum_, "0 or more");
    require_option(!nesterov_ || momentum_ > 0, "momentum", momentum_,
                   "above 0 where optimizer.nesterov is true");
    require_option(weight_decay_ >= 0, "weight_decay", weight_decay_, "0 or more");
  }

  std::vector<StateKind> kinds() const override {
    return momentum_ == 0 ? std::vector<StateKind>{} : std::vector<StateKind>{{"momentum"}};
  }

  void apply(const Update& update) const override {
    at::_fused_sgd_(update.weights, update.gradients,
                    momentum_ == 0 ? std::vector<at::Tensor>() : update.values(0), weight_decay_, momentum_,
                    update.learning_rate, /*dampening=*/0, nesterov_, /*maximize=*/false,
                    /*is_first_step=*/false, update.scale.divisor, update.scale.found_inf);
  }

 private:
  double momentum_, weight_decay_;
  bool nesterov_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_sgd(const OptimizerRule& options) { return std::make_unique<Sgd>(options); }

}  // namespace pipeline::strategies
