// AdamW (Loshchilov and Hutter, arXiv 1711.05101) by our own kernel on a CUDA device, else by PyTorch's fused
// one: one pass over weights, gradients and state, which also scales the gradients.
#include <algorithm>
#include <string>

#include <ATen/ops/_fused_adamw.h>

#include "plugins/gpu/program.hpp"
#include "plugins/strategies/common/rules/built_in.hpp"

namespace pipeline::strategies {

extern const char* const kAdamWKernel;  // the text of adamw.cu

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

// What the kernel takes, as adamw.cu has it. A block does kOfABlock times kAtOnce elements.
constexpr size_t kMostRuns = 64;
constexpr int64_t kAtOnce = 8, kThreads = 256, kOfABlock = 4 * kThreads;
struct Run {
  float *weights, *average, *square;
  const float* gradients;
  void* narrow;
  long long count, first_block;
};
struct Runs {
  Run runs[kMostRuns];
  int count;
};
struct Rule {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
};

bool is_taken(const at::Tensor& run) {
  return run.is_cuda() && run.scalar_type() == at::kFloat && run.numel() % kAtOnce == 0 &&
         gpu::is_aligned(run);
}

// By our own kernel, where all runs are on a CUDA device and whole vectors: one pass, which also writes
// narrow_weights(). False: not done.
bool adamw_on_device(const Update& u, const AdamWConfig& config) {
  const at::TensorList weights = tensors(u.weights()), gradients = tensors(u.gradients()),
                       average = tensors(u.state(0)), square = tensors(u.state(1));
  for (const at::TensorList& list : {weights, gradients, average, square})
    if (!std::ranges::all_of(list, is_taken)) return false;
  const at::TensorList narrow = narrow_weights();
  const Rule rule{u.learning_rate(), config.beta1, config.beta2, config.epsilon, u.weight_decay()};
  const auto scalar = [](const pl_tensor* tensor) {
    return tensor == nullptr ? nullptr : to_torch(*tensor).const_data_ptr<float>();
  };
  static gpu::Program program("adamw.cu", kAdamWKernel);
  const std::string kernel =
      gpu::kernel_for("adamw", narrow.empty() ? at::kFloat : narrow.front().scalar_type());
  for (size_t first = 0; first < weights.size(); first += kMostRuns) {
    Runs runs{.runs = {}, .count = 0};
    int64_t blocks = 0;
    for (size_t i = first; i < std::min(weights.size(), first + kMostRuns); ++i) {
      const int64_t count = weights[i].numel();
      runs.runs[runs.count++] = {weights[i].mutable_data_ptr<float>(),
                                 average[i].mutable_data_ptr<float>(),
                                 square[i].mutable_data_ptr<float>(),
                                 gradients[i].const_data_ptr<float>(),
                                 narrow.empty() ? nullptr : narrow[i].mutable_data_ptr(),
                                 count,
                                 blocks};
      blocks += (count / kAtOnce + kOfABlock - 1) / kOfABlock;
    }
    program.launch(kernel, weights[0].device(), blocks, kThreads, runs, rule, scalar(&u.updates()),
                   scalar(u.divisor()), scalar(u.found_inf()));
  }
  return true;
}

class AdamW : public pipeline::Optimizer<AdamWConfig> {
 public:
  using Optimizer::Optimizer;
  static constexpr bool kTakesScale = true;

  std::vector<std::string> state() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(const Update& u) override {
    if (adamw_on_device(u, config())) return;
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
