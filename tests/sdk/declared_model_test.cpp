// A model that declares its parameters, casts its products itself, and makes gradients as it goes.
#include "task_runner.hpp"

#include <pipeline/torch/task.hpp>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace {

using fake::TaskRunner;
using testing::ElementsAre;

struct Config {
  std::string start;
  void describe(pipeline::Options& o) { o("start", start, "what the weights start as"); }
};

struct Batch {
  at::Tensor x;  // (B, 4)
  void tensors(auto&& visit) { visit(x); }
};

// The loss is the sum of x W + b; its gradients are known without autograd.
class Sum {
 public:
  static constexpr bool kOwnPrecision = true;

  pipeline::ParameterRegistry& parameters() { return parameters_; }

  pipeline::LossSum loss(const Batch& batch, const pipeline::ForwardPass& pass) {
    autocast = at::autocast::is_autocast_enabled(at::kCPU);
    seen = pass;
    const at::Tensor x = batch.x.to(pass.compute);
    const at::Tensor y = pass.run(
        1,
        [&](const pipeline::Tensors& in) {
          return pipeline::Tensors{at::addmm(bias_.to(pass.compute), in[0], weight_.to(pass.compute))};
        },
        {x}, parameters_.of_unit(1))[0];
    const at::Tensor sum = y.to(at::kFloat).sum();
    return {sum.detach(), sum * pass.scale};
  }

  static inline bool autocast = false;
  static inline pipeline::ForwardPass seen;

 private:
  pipeline::ParameterRegistry parameters_;
  at::Tensor weight_ = parameters_.add({.name = "weight", .shape = {4, 2}, .unit = 1}, pipeline::normal(0.5));
  at::Tensor bias_ = parameters_.add(
      {.name = "bias", .shape = {2}, .decay = false, .unit = 1, .lr_multiplier = 2}, pipeline::constant(3));
  at::Tensor frozen_ =
      parameters_.add({.name = "frozen", .shape = {2, 2}, .trainable = false}, pipeline::constant(1));
};

class Task : public pipeline::TorchTask<Config, Sum, Batch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true;
  void open_data() override {}
  uint64_t sample_count(pipeline::Split) const override { return 8; }
  Batch make_batch(const pipeline::LoadRequest& request) const override {
    return {at::ones({static_cast<int64_t>(request.ids.size()), 4})};
  }
  pipeline::BatchInfo batch_info(const Batch& batch) const override {
    return {.weight = static_cast<double>(batch.x.size(0))};
  }
  std::shared_ptr<Sum> build_model() override {
    auto model = std::make_shared<Sum>();
    if (config().start == "sevens") model->parameters().start_from(0, pipeline::constant(7));
    return model;
  }
  pipeline::LossSum loss(const Batch& batch) override { return model().loss(batch, pass()); }
};

const pl_plugin& plugin() {
  pl_error* error = nullptr;
  return *pipeline::make_plugin<pipeline::TaskTable<Task>>(&fake::host(), &error, {"sum", "1.0.0", "A sum"});
}

TEST(DeclaredModelTest, its_parameters_are_as_they_were_declared) {
  TaskRunner runner(plugin(), "");
  runner.start();
  EXPECT_THAT(runner.names, ElementsAre("weight", "bias", "frozen"));
  EXPECT_EQ(runner.parameters[0].flags, PL_PARAMETER_TRAINABLE | PL_PARAMETER_DECAY);
  EXPECT_EQ(runner.parameters[1].flags, PL_PARAMETER_TRAINABLE);
  EXPECT_EQ(runner.parameters[2].flags, PL_PARAMETER_DECAY);
  EXPECT_EQ(runner.parameters[0].unit, 1u);
  EXPECT_EQ(runner.parameters[1].lr_multiplier, 2);
  EXPECT_EQ(runner.values[1], std::vector<float>(2, 3.0f));
}

TEST(DeclaredModelTest, initial_values_are_functions_of_the_seed_and_the_index) {
  TaskRunner a(plugin(), ""), b(plugin(), ""), other(plugin(), ""), sevens(plugin(), "start = 'sevens'");
  other.context.run.seed = 2;
  for (TaskRunner* runner : {&a, &b, &other, &sevens}) {
    at::rand({7});  // somebody else draws from the default generator
    runner->start();
  }
  EXPECT_EQ(a.values, b.values);
  EXPECT_NE(a.values[0], other.values[0]);
  EXPECT_EQ(sevens.values[0], std::vector<float>(8, 7.0f));
}

TEST(DeclaredModelTest, the_pass_says_what_the_batch_does_not) {
  TaskRunner runner(plugin(), "");
  runner.context.run.compute_dtype = pipeline::kBFloat16;
  runner.start();
  const auto batch = runner.load({0, 1, 2});
  ASSERT_EQ(runner.train(batch, 0.25, 9).message, "");
  EXPECT_TRUE(Sum::seen.training);
  EXPECT_EQ(Sum::seen.dropout_seed, 9u);
  EXPECT_EQ(Sum::seen.scale, 0.25);
  EXPECT_EQ(Sum::seen.compute, at::kBFloat16);
  EXPECT_FALSE(Sum::autocast);
  EXPECT_EQ(runner.grads[1], std::vector<float>(2, 0.75f))
      << "the scaled loss is where the backward pass begins";
  runner.evaluate(batch);
  EXPECT_FALSE(Sum::seen.training);
  EXPECT_EQ(Sum::seen.scale, 1);
  EXPECT_EQ(Sum::seen.compute, at::kBFloat16);
}

TEST(DeclaredModelTest, a_tensor_that_does_not_fit_is_refused) {
  Sum model;
  at::Tensor wrong = at::empty({2, 4});
  EXPECT_THAT([&] { model.parameters().initialize(0, 1, wrong); },
              testing::ThrowsMessage<pipeline::Error>(testing::HasSubstr("weight")));
}

}  // namespace
