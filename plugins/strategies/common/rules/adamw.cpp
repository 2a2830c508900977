// AdamW (Loshchilov and Hutter, arXiv 1711.05101) by our own kernel on a CUDA device, else by PyTorch's fused
// one: one pass over weights, gradients and state, which also scales the gradients.
#include <ATen/ops/_fused_adamw.h>

#include "plugins/strategies/common/rules/adamw_on_device.hpp"
#include "plugins/strategies/common/rules/built_in.hpp"

namespace pipeline::strategies {
namespace {

struct AdamWConfig {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  void describe(Options& o) {
    o("beta1", beta1, "decay of the gradient's moving average");
    o("beta2", beta2, "decay of its square's");
    o("epsilon", epsilon, "is added to the divisor");
  }
  void validate(const ConfigErrors& /*errors*/) const {
    require_option(beta1 >= 0 && beta1 < 1, "beta1", beta1, "at least 0 and below 1");
    require_option(beta2 >= 0 && beta2 < 1, "beta2", beta2, "at least 0 and below 1");
    require_option(epsilon > 0, "epsilon", epsilon, "above 0");
  }
};

class AdamW : public pipeline::Optimizer<AdamWConfig> {
 public:
  using Optimizer::Optimizer;
  static constexpr bool kTakesScale = true;

  std::vector<std::string> state() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(const Update& u) override {
    if (adamw_on_device(u, {config().beta1, config().beta2, config().epsilon})) return;
    // Kernels that take a list of step counts take one scalar many times.
    const std::vector<at::Tensor> steps(u.runs(), to_torch(u.updates()));
    at::_fused_adamw_(tensors(u.weights()), tensors(u.gradients()), tensors(u.state(0)), tensors(u.state(1)),
                      {}, steps, u.learning_rate(), config().beta1, config().beta2, u.weight_decay(),
                      config().epsilon, /*amsgrad=*/false, /*maximize=*/false, to_torch(u.divisor()),
                      to_torch(u.found_inf()));
  }
};

}  // namespace

const BuiltIn kAdamW = built_in<AdamW>("adamw");

}  // namespace pipeline::strategies
