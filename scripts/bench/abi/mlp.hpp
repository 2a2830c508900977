// The model and the data that both sides of the benchmark train: a perceptron large enough that a step is
// mostly matrix products.
#pragma once

#include <ATen/ops/addmm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

namespace pipeline::bench {

constexpr int64_t kWidth = 512, kLayers = 4, kBatch = 256;

struct Mlp : torch::nn::Module {
  Mlp() {
    for (int64_t i = 0; i < kLayers; ++i) {
      weights.push_back(register_parameter("weight" + std::to_string(i), at::randn({kWidth, kWidth}) * 0.04));
      biases.push_back(register_parameter("bias" + std::to_string(i), at::zeros({kWidth})));
    }
  }
  // x: (B, width) -> sum of squared errors against y: (B, width)
  at::Tensor loss_sum(at::Tensor x, const at::Tensor& y) {
    for (int64_t i = 0; i < kLayers; ++i) {
      x = at::addmm(biases[static_cast<size_t>(i)], x, weights[static_cast<size_t>(i)]);
      if (i + 1 < kLayers) x = at::relu(x);
    }
    return at::mse_loss(x, y, at::Reduction::Sum);
  }
  std::vector<at::Tensor> weights, biases;
};

}  // namespace pipeline::bench
