// The perceptron as a task plugin.
#include <pipeline/torch/task.hpp>

#include "mlp.hpp"

namespace {

struct Batch {
  at::Tensor x, y;  // (B, width)
  void tensors(auto&& visit) { visit(x), visit(y); }
};

class MlpTask : public pipeline::TorchTask<pipeline::NoConfig, pipeline::bench::Mlp, Batch> {
 public:
  using TorchTask::TorchTask;
  void open_data() override {}
  uint64_t sample_count(pipeline::Split) const override { return pipeline::bench::kBatch; }
  Batch make_batch(const pipeline::LoadRequest& request) const override {
    const auto rows = static_cast<int64_t>(request.ids.size());
    const auto random = pipeline::make_generator(context().seed("bench", request.ids[0]));
    return {at::randn({rows, pipeline::bench::kWidth}, random),
            at::randn({rows, pipeline::bench::kWidth}, random)};
  }
  pipeline::BatchInfo batch_info(const Batch& batch) const override {
    return {.weight = double(batch.x.size(0)), .samples = uint64_t(batch.x.size(0))};
  }
  std::shared_ptr<pipeline::bench::Mlp> build_model() override {
    return std::make_shared<pipeline::bench::Mlp>();
  }
  pipeline::LossSum loss(const Batch& batch) override {
    return pipeline::LossSum(model().loss_sum(batch.x, batch.y));
  }
};

}  // namespace

PIPELINE_TASK(MlpTask, "bench_mlp", "1.0.0", "A perceptron, to measure what the ABI costs")
