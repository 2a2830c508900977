// SGD as PyTorch has it, by its fused kernel. Momentum starts at zero, so that the first update needs no
// special case: 0 x momentum + gradient is the gradient.
#include <cmath>

#include <ATen/ops/_fused_sgd.h>

#include "plugins/strategies/common/rules/built_in.hpp"

namespace pipeline::strategies {
namespace {

struct SgdConfig {
  double momentum = 0;
  bool nesterov = false;

  void describe(Options& o) {
    o("momentum", momentum, "decay of the gradients' sum; 0: the gradient itself");
    o("nesterov", nesterov, "Nesterov's momentum");
  }
  void validate(const ConfigErrors& /*errors*/) const {
    require_option(momentum >= 0 && std::isfinite(momentum), "momentum", momentum, "0 or more");
    require_option(!nesterov || momentum > 0, "momentum", momentum,
                   "above 0 where optimizer.nesterov is true");
  }
};

class Sgd : public pipeline::Optimizer<SgdConfig> {
 public:
  using Optimizer::Optimizer;
  static constexpr bool kTakesScale = true;

  std::vector<std::string> state() const override {
    return config().momentum == 0 ? std::vector<std::string>() : std::vector<std::string>{"momentum"};
  }

  void update(const Update& u) override {
    at::_fused_sgd_(tensors(u.weights()), tensors(u.gradients()),
                    config().momentum == 0 ? at::TensorList() : tensors(u.state(0)), u.weight_decay(),
                    config().momentum, u.learning_rate(), /*dampening=*/0, config().nesterov,
                    /*maximize=*/false, /*is_first_step=*/false, to_torch(u.divisor()),
                    to_torch(u.found_inf()));
  }
};

}  // namespace

const BuiltIn kSgd = built_in<Sgd>("sgd");

}  // namespace pipeline::strategies
