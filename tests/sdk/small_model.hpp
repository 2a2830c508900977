// A small residual network with dropout, run layer by layer, and the task that trains it.
#pragma once

#include <pipeline/torch/task.hpp>

#include <ATen/ops/dropout.h>
#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <string>
#include <vector>

namespace small {

struct Config {
  int64_t layers = 4;
  double dropout = 0.1;
  std::string oddity;
  void describe(pipeline::Options& o) {
    o("layers", layers, "number of layers");
    o("dropout", dropout, "probability");
    o("oddity", oddity, "what is wrong with this task");
  }
};

struct Batch {
  at::Tensor x, y;  // (B, 8)
  void tensors(auto&& visit) {
    visit(x);
    visit(y);
  }
};

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(double p) : norm(torch::nn::LayerNormOptions({8})), up(8, 16), down(16, 8), dropout(p) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) {
    return x + at::dropout(down(at::gelu(up(norm(x)))), dropout, is_training());
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  double dropout;
};
TORCH_MODULE(Layer);

struct Network : torch::nn::Module {
  explicit Network(const Config& config) {
    register_module("in", in);
    for (int64_t k = 0; k < config.layers; ++k) {
      layers.push_back(register_module("layer" + std::to_string(k), Layer(config.dropout)));
    }
    register_module("out", out);
    unused = register_parameter("unused", at::ones({3}));
    frozen = register_parameter("frozen", at::ones({8}), /*requires_grad=*/false);
    if (config.oddity == "batch norm") norm = register_module("batch_norm", torch::nn::BatchNorm1d(8));
  }
  at::Tensor forward(at::Tensor x, pipeline::Units& units) {
    x = units(0, *in, x);
    if (norm) x = norm(x);
    for (size_t k = 0; k < layers.size(); ++k) x = units(static_cast<uint32_t>(k) + 1, *layers[k], x);
    return units(static_cast<uint32_t>(layers.size()) + 1, *out, x) * frozen;
  }
  torch::nn::Linear in{8, 8}, out{8, 8};
  std::vector<Layer> layers;
  at::Tensor unused, frozen;
  torch::nn::BatchNorm1d norm{nullptr};
};

class Task : public pipeline::TorchTask<Config, Network, Batch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true;

  void open_data() override {}
  uint64_t sample_count(pipeline::Split) const override { return 64; }
  Batch make_batch(const pipeline::LoadRequest& request) const override {
    std::vector<at::Tensor> xs;
    for (const uint64_t id : request.ids)
      xs.push_back(at::randn({8}, pipeline::make_generator(context().seed("x", id))));
    const at::Tensor x = at::stack(xs);
    return {x, at::sin(x.cumsum(1))};
  }
  pipeline::BatchInfo batch_info(const Batch& batch) const override {
    return {.weight = static_cast<double>(batch.x.numel()),
            .samples = static_cast<uint64_t>(batch.x.size(0))};
  }
  std::shared_ptr<Network> build_model() override { return std::make_shared<Network>(config()); }
  void describe_parameter(pipeline::Parameter& p) override {
    if (p.name.starts_with("layer")) p.unit = static_cast<uint32_t>(p.name[5] - '0') + 1;
    if (p.name.starts_with("out")) p.unit = static_cast<uint32_t>(config().layers) + 1;
  }
  pipeline::LossSum loss(const Batch& batch) override {
    if (config().oddity == "out of memory") allocate_too_much();
    if (config().oddity == "constant loss") return pipeline::LossSum(at::ones({}));
    const at::Tensor y = model().forward(batch.x, units());
    compute_dtype = y.scalar_type();
    if (y.requires_grad()) {
      y.register_hook(
          [](const at::Tensor&) { autocast_in_backward = at::autocast::is_autocast_enabled(at::kCPU); });
    }
    if (config().oddity == "vector loss") return pipeline::LossSum((y - batch.y).square().sum(0));
    if (config().oddity == "narrow loss") return pipeline::LossSum((y.to(at::kBFloat16)).sum());
    return pipeline::LossSum(at::mse_loss(y.to(at::kFloat), batch.y, at::Reduction::Sum));
  }

  static void allocate_too_much() { at::empty({int64_t{1} << 50}); }

  static inline at::ScalarType compute_dtype = at::kFloat;  // the last output's type
  static inline bool autocast_in_backward = false;
};

inline const pl_plugin& plugin(const pl_host& host) {
  pl_error* error = nullptr;
  return *pipeline::make_plugin<pipeline::TaskTable<Task>>(&host, &error,
                                                           {"small", "1.0.0", "A small network"});
}

}  // namespace small
