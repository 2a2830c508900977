// The smallest complete task: a network learns y = sin(x) from noisy samples. `pipeline new task` copies
// this file; change what is yours.
#include <pipeline/torch/task.hpp>

#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/linear.h>

namespace {

struct Config {  // the keys of [task] in the user's file
  int64_t samples = 2000, width = 32;
  double noise = 0.1;
  void describe(pipeline::Options& o) {
    o("samples", samples, "size of the training split; the others have a tenth").min(10);
    o("width", width, "hidden units of the network").min(1);
    o("noise", noise, "standard deviation of the noise on y").min(0);
  }
};

struct Batch {
  at::Tensor x, y;  // (B, 1)
  void tensors(auto&& visit) { visit(x), visit(y); }
};

struct Network : torch::nn::Module {
  explicit Network(int64_t width)
      : hidden(register_module("hidden", torch::nn::Linear(1, width))),
        out(register_module("out", torch::nn::Linear(width, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return out(at::tanh(hidden(x))); }
  torch::nn::Linear hidden, out;
};

class Sine : public pipeline::TorchTask<Config, Network, Batch> {
 public:
  using TorchTask::TorchTask;
  void open_data() override {}  // a real task reads its files here
  uint64_t sample_count(pipeline::Split split) const override {
    return static_cast<uint64_t>(split == pipeline::Split::kTrain ? config().samples : config().samples / 10);
  }
  Batch make_batch(const pipeline::LoadRequest& request) const override {
    std::vector<at::Tensor> xs, ys;
    for (const uint64_t id : request.ids) {  // a sample depends on the run's seed and its id alone
      const auto random = pipeline::make_generator(context().seed("sine", uint64_t(request.split), id));
      xs.push_back(at::rand({1}, random) * 6 - 3);
      ys.push_back(at::sin(xs.back()) + at::randn({1}, random) * config().noise);
    }
    return {at::stack(xs), at::stack(ys)};
  }
  pipeline::BatchInfo batch_info(const Batch& batch) const override {
    return {.weight = double(batch.x.size(0)), .samples = uint64_t(batch.x.size(0))};
  }
  std::shared_ptr<Network> build_model() override { return std::make_shared<Network>(config().width); }
  pipeline::LossSum loss(const Batch& batch) override {
    return pipeline::LossSum(at::mse_loss(model().forward(batch.x), batch.y, at::Reduction::Sum));
  }
};

}  // namespace

PIPELINE_TASK(Sine, "template", "1.0.0", "Learns a sine from noisy samples")
