#include "plugins/strategies/common/rules/adamw_on_device.hpp"

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "plugins/gpu/program.hpp"
#include "plugins/strategies/common/rules/built_in.hpp"

namespace pipeline::strategies {
namespace {

// As in adamw.cu.
constexpr size_t kMostRuns = 64;
constexpr int64_t kAtOnce = 8, kThreads = 256, kPieces = 4 * kThreads;
struct Run {
  float *weights, *average, *square;
  const float* gradients;
  void* narrow;
  long long count, first_block;
};
struct Runs {
  Run runs[kMostRuns];
  int count, pieces;
};
struct Rule {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
};

bool is_taken(const at::Tensor& run) {
  return run.is_cuda() && run.scalar_type() == at::kFloat && run.numel() % kAtOnce == 0 &&
         reinterpret_cast<uintptr_t>(run.const_data_ptr()) % 16 == 0;
}

const char* kernel_for(at::TensorList narrow) {
  if (narrow.empty()) return "adamw_float";
  return narrow[0].scalar_type() == at::kHalf ? "adamw_float16" : "adamw_bfloat16";
}

}  // namespace

bool adamw_on_device(const Update& u, const AdamWFactors& factors) {
  const at::TensorList weights = tensors(u.weights()), gradients = tensors(u.gradients()),
                       average = tensors(u.state(0)), square = tensors(u.state(1));
  for (const at::TensorList& list : {weights, gradients, average, square})
    if (!std::ranges::all_of(list, is_taken)) return false;
  const at::TensorList narrow = narrow_weights();
  const Rule rule{u.learning_rate(), factors.beta1, factors.beta2, factors.epsilon, u.weight_decay()};
  const auto scalar = [](const pl_tensor* tensor) {
    return tensor == nullptr ? nullptr : to_torch(*tensor).const_data_ptr<float>();
  };
  static gpu::Program program("adamw.cu", kAdamWKernel);
  for (size_t first = 0; first < weights.size(); first += kMostRuns) {
    Runs runs{.runs = {}, .count = 0, .pieces = static_cast<int>(kPieces)};
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
      blocks += (count / kAtOnce + kPieces - 1) / kPieces;
    }
    program.launch(kernel_for(narrow), weights[0].device(), blocks, kThreads, runs, rule,
                   scalar(&u.updates()), scalar(u.divisor()), scalar(u.found_inf()));
  }
  return true;
}

}  // namespace pipeline::strategies
