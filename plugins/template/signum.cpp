// An update rule: the weights move by the learning rate along the sign of the gradient's moving average
// (Bernstein et al., arXiv 1802.04434). `pipeline new optimizer` copies this file; change what is
// yours.
#include <pipeline/optimizer.hpp>
#include <pipeline/torch/runtime.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace {

struct SignumConfig {
  double beta = 0.9;

  void describe(pipeline::Options& o) {
    o("beta", beta, "decay of the gradient's moving average; 0: the gradient itself").min(0).below(1);
  }
};

class Signum : public pipeline::Optimizer<SignumConfig> {
 public:
  using Optimizer::Optimizer;

  std::vector<std::string> state() const override { return {"momentum"}; }

  // Any tensor operation will do that is made element by element: strategies cut parameters where they like.
  void update(const pipeline::Update& u) override {
    const at::NoGradGuard no_grad;
    for (size_t run = 0; run < u.runs(); ++run) {
      const at::Tensor weights = pipeline::to_torch(u.weights(run)),
                       gradient = pipeline::to_torch(u.gradient(run)),
                       momentum = pipeline::to_torch(u.state(0, run));
      momentum.lerp_(gradient, 1 - config().beta);
      weights.mul_(1 - u.learning_rate() * u.weight_decay()).sub_(momentum.sign(), u.learning_rate());
    }
  }
};

}  // namespace

PIPELINE_OPTIMIZER(Signum, "signum", "1.0.0", "The sign of the gradient's moving average")
