// An update rule of an operation whose vectors have other bits than its scalars, in LibTorch on some
// processors.
#include <pipeline/optimizer.hpp>
#include <pipeline/torch/runtime.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace {

class SigmoidRule : public pipeline::Optimizer<pipeline::NoConfig> {
 public:
  using Optimizer::Optimizer;
  std::vector<std::string> state() const override { return {"sum", "squares"}; }
  void update(const pipeline::Update& u) override {
    const at::NoGradGuard no_grad;
    for (size_t run = 0; run < u.runs(); ++run) {
      const at::Tensor gradient = pipeline::to_torch(u.gradient(run)),
                       sum = pipeline::to_torch(u.state(0, run)),
                       squares = pipeline::to_torch(u.state(1, run));
      sum.lerp_(gradient, 0.1);
      squares.lerp_(gradient.square(), 0.01);
      const at::Tensor direction = at::sigmoid(sum / (squares.sqrt() + 1e-8)) - 0.5;
      pipeline::to_torch(u.weights(run)).sub_(direction, u.learning_rate());
    }
  }
};

}  // namespace

PIPELINE_OPTIMIZER(SigmoidRule, "sigmoid_rule", "1.0.0", "the sigmoid of what AdamW moves by")
