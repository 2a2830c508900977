// Narrow dtypes: autocast, narrow parameters, and both under activation checkpointing.
#include "small_model.hpp"
#include "task_runner.hpp"

#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>  // its declarations are those of pipeline/torch/autocast.hpp
#include <ATen/ops/mm.h>

namespace {

using fake::TaskRunner;

const std::vector<uint64_t> kPrecisionIds = {3, 1, 4, 15, 9, 2};

class PrecisionTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(fake::live_errors(), 0);
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  }
  const pl_plugin& plugin_ = small::plugin(fake::host());
};

TEST_F(PrecisionTest, autocast_is_in_force_in_forward_passes_alone) {
  for (const pl_dtype dtype : {pipeline::kBFloat16, pipeline::kFloat16}) {
    TaskRunner runner(plugin_, "dropout = 0.0"), wide(plugin_, "dropout = 0.0");
    runner.context.run.compute_dtype = dtype;
    runner.start();
    wide.start();
    const auto batch = runner.load(kPrecisionIds);
    ASSERT_EQ(wide.train(batch).message, "");
    EXPECT_EQ(small::Task::compute_dtype, at::kFloat);
    ASSERT_EQ(runner.train(batch).message, "");
    EXPECT_FALSE(small::Task::autocast_in_backward);
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_NE(runner.loss, wide.loss);
    EXPECT_NEAR(runner.loss, wide.loss, 0.02 * wide.loss);
    EXPECT_NEAR(runner.evaluate(batch) * 48, runner.loss, 0.02 * wide.loss);
    for (size_t i = 0; i < runner.grads.size(); ++i) {
      for (size_t k = 0; k < runner.grads[i].size(); ++k)
        EXPECT_NEAR(runner.grads[i][k], wide.grads[i][k], 1.0);
    }
  }
}

TEST_F(PrecisionTest, checkpointing_under_autocast_changes_nothing) {
  TaskRunner plain(plugin_, "dropout = 0.3"), checkpointed(plugin_, "dropout = 0.3");
  for (TaskRunner* runner : {&plain, &checkpointed}) runner->context.run.compute_dtype = pipeline::kBFloat16;
  checkpointed.context.run.flags = PL_RUN_ACTIVATION_CHECKPOINTING;
  plain.start();
  checkpointed.start();
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_EQ(plain.train(plain.load(kPrecisionIds), 0.25, step).message, "");
    ASSERT_EQ(checkpointed.train(checkpointed.load(kPrecisionIds), 0.25, step).message, "");
    EXPECT_EQ(plain.loss, checkpointed.loss);
    EXPECT_EQ(plain.grads, checkpointed.grads);
    plain.descend(0.05);
    checkpointed.descend(0.05);
  }
}

// Values in bfloat16, as a strategy with float32 masters binds them.
class NarrowStorage {
 public:
  NarrowStorage(const pl_plugin& plugin, pl_dtype gradient_dtype) : runner_(plugin, "dropout = 0.0") {
    runner_.context.run.parameter_dtype = runner_.context.run.compute_dtype = pipeline::kBFloat16;
    EXPECT_EQ(runner_.create().message, "");
    EXPECT_OK(runner_.api().open(runner_.task()));
    runner_.read_parameters();
    for (size_t i = 0; i < runner_.values.size(); ++i) {
      pl_tensor master = runner_.view(i, runner_.values[i]);
      EXPECT_OK(runner_.api().initialize(runner_.task(), i, &master));
      values_.push_back(pipeline::to_torch(master).to(at::kBFloat16));
      grads_.push_back(at::zeros(values_.back().sizes(), pipeline::to_torch(gradient_dtype)));
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      const pl_tensor value = pipeline::to_pl(values_[i]), grad = pipeline::to_pl(grads_[i]);
      EXPECT_OK(runner_.api().bind(runner_.task(), i, &value, &grad));
    }
  }

  // Two micro-batches, so that the second one is added.
  void train() {
    const auto batch = runner_.load(kPrecisionIds);
    for (int micro = 0; micro < 2; ++micro) {
      pl_gradient_sink sink{};
      sink.struct_size = sizeof(sink);
      sink.user = this;
      sink.ready = [](void* user, const pl_gradient* g) -> pl_error* {
        EXPECT_EQ(g->tensor->data, static_cast<NarrowStorage*>(user)->grads_[g->index].data_ptr());
        ++static_cast<NarrowStorage*>(user)->ready_;
        return nullptr;
      };
      pl_train_args args{};
      args.struct_size = sizeof(args);
      args.scale = 1;
      args.gradients = &sink;
      pl_tensor loss{};
      ASSERT_OK(runner_.api().train(runner_.task(), batch.get(), &args, &loss));
      EXPECT_EQ(loss.dtype.bits, 32);
    }
  }

  TaskRunner runner_;
  std::vector<at::Tensor> values_, grads_;
  int ready_ = 0;
};

TEST_F(PrecisionTest, narrow_parameters_accumulate_into_narrow_or_wide_gradients) {
  TaskRunner wide(plugin_, "dropout = 0.0");
  wide.start();
  ASSERT_EQ(wide.train(wide.load(kPrecisionIds), 2).message, "");
  for (const pl_dtype dtype : {pipeline::kBFloat16, pipeline::kFloat32}) {
    NarrowStorage narrow(plugin_, dtype);
    narrow.train();
    EXPECT_EQ(small::Task::compute_dtype, at::kBFloat16);
    EXPECT_EQ(narrow.ready_, 2 * static_cast<int>(wide.ready.size()));
    for (size_t i = 0; i < narrow.grads_.size(); ++i) {
      EXPECT_EQ(narrow.grads_[i].scalar_type(), pipeline::to_torch(dtype));
      const at::Tensor expected = pipeline::to_torch(wide.view(i, wide.grads[i]));
      const double error = (narrow.grads_[i].to(at::kFloat) - expected).norm().item<double>();
      EXPECT_LE(error, 0.05 * expected.norm().item<double>() + 1e-6) << wide.names[i];
    }
  }
}

TEST_F(PrecisionTest, a_weight_used_inside_and_outside_a_checkpoint_gets_its_whole_gradient) {
  // Autocast keeps a converted copy of a weight; one made where nothing is recorded has no way back to the
  // weight.
  const at::Tensor w = at::randn({4, 4}).requires_grad_(true), x = at::randn({3, 4});
  const auto run = [&](bool checkpointing) {
    const pipeline::AutocastScope scope(pipeline::Autocast::for_compute(at::kCPU, at::kBFloat16));
    const pipeline::LayerFn layer = [&](const pipeline::Tensors& in) -> pipeline::Tensors {
      return {at::mm(in[0], w)};
    };
    const at::Tensor h = checkpointing ? pipeline::recompute(layer, {x}, {w})[0] : layer({x})[0];
    return at::mm(h, w).to(at::kFloat).sum();
  };
  run(false).backward();
  const at::Tensor expected = w.grad().clone();
  w.mutable_grad() = at::Tensor();
  run(true).backward();
  EXPECT_LT((w.grad() - expected).abs().max().item<float>(), 0.05f * expected.abs().max().item<float>());
}

}  // namespace
