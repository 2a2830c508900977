// The smallest complete task: a network learns y = sin(x) from noisy samples. `pipeline new task` copies
// this file; change what is yours.
#include <pipeline/numbers.hpp>
#include <pipeline/torch/task.hpp>

#include <ATen/ATen.h>  // every operator; <ATen/ops/NAME.h> in its place compiles faster
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
  std::vector<uint64_t> ids;
  at::Tensor x, y;  // (B, 1)
  void tensors(auto&& visit) { visit(x), visit(y); }
};

struct Network : torch::nn::Module {
  explicit Network(int64_t width)
      : hidden(register_module("hidden", torch::nn::Linear(1, width))),
        out(register_module("out", torch::nn::Linear(width, 1))) {}
  at::Tensor forward(const at::Tensor& x, pipeline::Units& units) {  // layer k is unit k
    return units(1, *out, at::tanh(units(0, *hidden, x)));
  }
  torch::nn::Linear hidden, out;
};

class Sine : public pipeline::TorchTask<Config, Network, Batch> {
 public:
  using TorchTask::TorchTask;
  // Data.
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
    return {{request.ids.begin(), request.ids.end()}, at::stack(xs), at::stack(ys)};
  }
  pipeline::BatchInfo batch_info(const Batch& batch) const override {
    return {.weight = double(batch.ids.size()), .samples = batch.ids.size()};
  }

  // Model and loss. A strategy may keep the parameters of one unit at a time.
  static constexpr bool kHasUnits = true;
  std::shared_ptr<Network> build_model() override { return std::make_shared<Network>(config().width); }
  void describe_parameter(pipeline::Parameter& p) override { p.unit = p.name.starts_with("out.") ? 1 : 0; }
  at::Tensor curve(const Batch& batch) { return model().forward(batch.x, units()); }
  pipeline::LossSum loss(const Batch& batch) override {
    return pipeline::LossSum(at::mse_loss(curve(batch), batch.y, at::Reduction::Sum));
  }

  // Evaluation and prediction.
  std::vector<pipeline::Metric> metrics() override {
    return {{.name = "distance", .help = "mean distance from the sine without noise"}};
  }
  void evaluate(const Batch& batch, pipeline::EvaluationSink& sink) override {
    TorchTask::evaluate(batch, sink);  // the loss
    const at::Tensor distance = (curve(batch) - at::sin(batch.x)).abs();
    sink.value("distance", distance.sum().item<double>(), batch_info(batch).weight);
  }
  std::vector<std::string> prediction_columns() override { return {"x", "y"}; }
  std::string sample_name(pipeline::Split, uint64_t id) const override { return std::to_string(id); }
  void predict(const Batch& batch, const pipeline::PredictionSink& sink) override {
    const at::Tensor y = curve(batch);
    for (int64_t i = 0; i < y.size(0); ++i) {
      const double at_x = batch.x[i].item<double>(), at_y = y[i].item<double>();
      if (std::isnan(at_y)) pipeline::fail_as_nan(std::to_string(batch.ids[size_t(i)]), "y");
      sink.row(batch.ids[size_t(i)], {std::to_string(at_x), std::to_string(at_y)});
    }
  }
};

}  // namespace

PIPELINE_TASK(Sine, "template", "1.0.0", "Learns a sine from noisy samples")
