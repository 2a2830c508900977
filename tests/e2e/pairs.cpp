// Two views of hidden causes, each behind a network of its own with dropout, brought together by a
// contrastive loss over the global batch: the smallest task that uses pl.global-outputs/1.
#include <pipeline/torch/global_loss.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/modules/linear.h>

namespace {

constexpr int64_t kCauses = 6, kWidth = 16, kShared = 8;

struct Config {
  int64_t samples = 45;
  double dropout = 0.1;
  bool symmetric = true;
  std::string oddity;
  void describe(pipeline::Options& o) {
    o("samples", samples, "size of the training split").min(1);
    o("dropout", dropout, "probability").min(0).below(1);
    o("symmetric", symmetric, "each view is to find the other; false: the first one the second alone");
    o("oddity", oddity, "what is wrong with this task").choices({"", "losses", "room"});
  }
};

struct Batch {
  std::vector<uint64_t> ids;
  at::Tensor left, right;  // (B, kCauses)
  void tensors(auto&& visit) { visit(left), visit(right); }
};

at::Tensor normalized(const at::Tensor& x) { return x / x.norm(2, -1, true); }

// Layer k of each view is unit 2 k or 2 k + 1; the temperature is the last unit's.
struct Networks : torch::nn::Module {
  explicit Networks(double p) : dropout(p) {
    register_module("left_in", left_in);
    register_module("right_in", right_in);
    register_module("left_out", left_out);
    register_module("right_out", right_out);
    scale = register_parameter("scale", at::zeros({}));
  }
  at::Tensor forward(const Batch& batch, const pipeline::ForwardPass& pass, bool in_training) {
    const auto layer = [&](uint32_t unit, torch::nn::Linear& linear, const at::Tensor& x) {
      const auto run = [linear, unit, p = dropout, in_training](const pipeline::Tensors& in) mutable {
        const at::Tensor y = linear(in[0]);
        return pipeline::Tensors{unit < 2 ? at::dropout(at::tanh(y), p, in_training) : normalized(y)};
      };
      return pass.run(unit, run, {x}, linear->parameters())[0];
    };
    at::Tensor left = layer(0, left_in, batch.left);
    const at::Tensor right = layer(3, right_out, layer(1, right_in, batch.right));
    left = layer(2, left_out, left);
    const auto times = [this](const pipeline::Tensors& in) { return pipeline::Tensors{in[0] * scale.exp()}; };
    return at::cat({pass.run(4, times, {left}, {scale})[0], right}, 1);
  }

  torch::nn::Linear left_in{kCauses, kWidth}, right_in{kCauses, kWidth}, left_out{kWidth, kShared},
      right_out{kWidth, kShared};
  at::Tensor scale;
  double dropout;
};

class Pairs : public pipeline::GlobalLossTask<Config, Networks, Batch> {
 public:
  using GlobalLossTask::GlobalLossTask;
  static constexpr bool kHasUnits = true;

  void open_data() override {}
  uint64_t sample_count(pipeline::Split split) const override {
    return split == pipeline::Split::kTrain ? static_cast<uint64_t>(config().samples) : 10;
  }
  Batch make_batch(const pipeline::LoadRequest& request) const override {
    std::vector<at::Tensor> lefts, rights;
    for (const uint64_t id : request.ids) {
      const auto random = pipeline::make_generator(context().seed("pair", uint64_t(request.split), id));
      lefts.push_back(at::randn({kCauses}, random));
      rights.push_back(lefts.back().flip(0) + 0.1 * at::randn({kCauses}, random));
    }
    return {{request.ids.begin(), request.ids.end()}, at::stack(lefts), at::stack(rights)};
  }
  pipeline::BatchInfo batch_info(const Batch& batch) const override {
    return {.weight = double(batch.ids.size()), .samples = batch.ids.size()};
  }

  std::shared_ptr<Networks> build_model() override { return std::make_shared<Networks>(config().dropout); }
  void describe_parameter(pipeline::Parameter& p) override {
    p.unit = p.name.starts_with("left_in")     ? 0
             : p.name.starts_with("right_in")  ? 1
             : p.name.starts_with("left_out")  ? 2
             : p.name.starts_with("right_out") ? 3
                                               : 4;
  }

  int64_t output_width() const override { return 2 * kShared + (config().oddity == "room" ? 1 : 0); }
  at::Tensor outputs(const Batch& batch) override { return model().forward(batch, pass(), is_training()); }
  at::Tensor global_loss(const at::Tensor& outputs) override {
    const at::Tensor logits = at::mm(outputs.narrow(1, 0, kShared), outputs.narrow(1, kShared, kShared).t());
    const at::Tensor right = -at::log_softmax(logits, 1).diagonal();
    if (config().oddity == "losses") return right.sum();
    return config().symmetric ? (right - at::log_softmax(logits, 0).diagonal()) / 2 : right;
  }
};

}  // namespace

PIPELINE_TASK(Pairs, "pairs", "1.0.0", "Finds which of two views belong together")
