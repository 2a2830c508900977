#include "small_model.hpp"
#include "task_runner.hpp"

#include <gmock/gmock.h>

#include <thread>

namespace {

using fake::Gradients;
using fake::TaskRunner;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

static_assert(!std::is_convertible_v<at::Tensor, pipeline::LossSum>,
              "a mean must not pass for a sum by accident");

class TorchTaskTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(fake::live_errors(), 0); }
  const pl_plugin& plugin_ = small::plugin(fake::host());
};

const std::vector<uint64_t> kIds = {3, 1, 4, 15, 9, 2};

TEST_F(TorchTaskTest, the_plugin_states_its_runtime) {
  EXPECT_THAT(fake::text(plugin_.runtime),
              testing::MatchesRegex("torch 2\\.1[15]\\.0\\+[a-z0-9]+ cxx11-abi"));
}

TEST_F(TorchTaskTest, parameters_are_listed_from_the_module) {
  TaskRunner runner(plugin_, "layers = 1");
  runner.start();
  EXPECT_THAT(runner.names, ElementsAre("unused", "frozen", "in.weight", "in.bias", "layer0.norm.weight",
                                        "layer0.norm.bias", "layer0.up.weight", "layer0.up.bias",
                                        "layer0.down.weight", "layer0.down.bias", "out.weight", "out.bias"));
  EXPECT_EQ(runner.shapes[6], (std::vector<int64_t>{16, 8}));
  EXPECT_EQ(runner.parameters[6].flags, PL_PARAMETER_TRAINABLE | PL_PARAMETER_DECAY);
  EXPECT_EQ(runner.parameters[7].flags, PL_PARAMETER_TRAINABLE);
  EXPECT_EQ(runner.parameters[1].flags, 0u) << "frozen";
  EXPECT_EQ(runner.parameters[6].unit, 1u);
  EXPECT_EQ(runner.parameters[10].unit, 2u);
}

TEST_F(TorchTaskTest, the_initial_value_depends_on_the_seed_alone) {
  TaskRunner a(plugin_, ""), b(plugin_, ""), other(plugin_, "");
  a.start();
  at::rand({100});  // somebody else draws from the default generator
  b.start();
  other.context.run.seed = 2;
  other.start();
  EXPECT_EQ(a.values, b.values);
  EXPECT_NE(a.values[2], other.values[2]);
}

TEST_F(TorchTaskTest, handed_over_and_accumulated_gradients_are_the_same_bits) {
  TaskRunner bound(plugin_, ""), handed(plugin_, "", Gradients::kHandOver);
  bound.start();
  handed.start();
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(bound.train(bound.load(kIds), 0.125).message, "");
    ASSERT_EQ(handed.train(handed.load(kIds), 0.125).message, "");
    EXPECT_EQ(bound.loss, handed.loss);
    EXPECT_EQ(bound.ready, handed.ready);
    EXPECT_EQ(bound.grads, handed.grads);
    bound.descend(0.01);
    handed.descend(0.01);
    EXPECT_EQ(bound.values, handed.values);
  }
  EXPECT_EQ(bound.ready.size(), bound.names.size() - 2)
      << "neither the unused nor the frozen parameter is reported";
}

TEST_F(TorchTaskTest, gradients_are_those_of_plain_autograd) {
  TaskRunner runner(plugin_, "dropout = 0.0");
  runner.start();
  ASSERT_EQ(runner.train(runner.load(kIds), 0.5).message, "");

  small::Config config;
  config.dropout = 0;
  small::Network plain(config);
  for (size_t i = 0; i < runner.names.size(); ++i) {
    plain.named_parameters()[runner.names[i]].set_data(
        pipeline::to_torch(runner.view(i, runner.values[i])).clone());
  }
  std::vector<at::Tensor> xs;
  for (const uint64_t id : kIds) {
    const uint64_t seed = fake::host().seed(&runner.context, fake::str("x"), id, 0, 0);
    xs.push_back(at::randn({8}, pipeline::make_generator(seed)));
  }
  const at::Tensor x = at::stack(xs);
  pipeline::Units units;
  const at::Tensor sum = at::mse_loss(plain.forward(x, units), at::sin(x.cumsum(1)), at::Reduction::Sum);
  (sum * 0.5).backward();
  EXPECT_EQ(runner.loss, sum.item<float>());
  for (size_t i = 0; i < runner.names.size(); ++i) {
    const at::Tensor expected = plain.named_parameters()[runner.names[i]].grad();
    if (!expected.defined()) continue;
    EXPECT_TRUE(at::equal(expected, pipeline::to_torch(runner.view(i, runner.grads[i])))) << runner.names[i];
  }
}

TEST_F(TorchTaskTest, micro_batches_add_up) {
  TaskRunner runner(plugin_, "dropout = 0.0");
  runner.start();
  const auto batch = runner.load(kIds);
  ASSERT_EQ(runner.train(batch).message, "");
  const auto once = runner.grads;
  ASSERT_EQ(runner.train(batch).message, "");
  for (size_t i = 0; i < once.size(); ++i) {
    for (size_t k = 0; k < once[i].size(); ++k) EXPECT_EQ(runner.grads[i][k], 2 * once[i][k]);
  }
}

TEST_F(TorchTaskTest, dropout_depends_on_the_batchs_seed_alone) {
  TaskRunner runner(plugin_, "dropout = 0.5");
  runner.start();
  const auto batch = runner.load(kIds);
  ASSERT_EQ(runner.train(batch, 1, 7).message, "");
  const double first = runner.loss;
  at::rand({11});
  runner.evaluate(batch);
  ASSERT_EQ(runner.train(batch, 1, 8).message, "");
  EXPECT_NE(runner.loss, first);
  ASSERT_EQ(runner.train(batch, 1, 7).message, "");
  EXPECT_EQ(runner.loss, first);
}

TEST_F(TorchTaskTest, evaluation_has_no_dropout_and_leaves_nothing_behind) {
  TaskRunner runner(plugin_, "dropout = 0.5"), plain(plugin_, "dropout = 0.0");
  for (const uint32_t purpose : {PL_PURPOSE_TRAIN, PL_PURPOSE_EVALUATE}) {
    TaskRunner dropping(plugin_, "dropout = 0.5"), reference(plugin_, "dropout = 0.0");
    dropping.context.run.purpose = reference.context.run.purpose = purpose;
    dropping.start();
    reference.start();
    const auto batch = dropping.load(kIds);
    const double mean = dropping.evaluate(batch);
    EXPECT_EQ(mean, dropping.evaluate(batch));
    EXPECT_EQ(dropping.evaluated["loss"].second, 48);
    if (purpose == PL_PURPOSE_TRAIN) {
      ASSERT_EQ(reference.train(reference.load(kIds)).message, "");
      EXPECT_FLOAT_EQ(static_cast<float>(mean), static_cast<float>(reference.loss / 48));
      ASSERT_EQ(dropping.train(batch).message, "") << "training goes on after an evaluation";
      EXPECT_NE(dropping.loss / 48, mean);
    }
  }
}

TEST_F(TorchTaskTest, training_lowers_the_loss) {
  TaskRunner runner(plugin_, "layers = 2");
  runner.start();
  std::vector<uint64_t> ids(64);
  std::iota(ids.begin(), ids.end(), 0);
  const auto batch = runner.load(ids);
  const double before = runner.evaluate(batch);
  for (uint64_t step = 0; step < 150; ++step) {
    ASSERT_EQ(runner.train(batch, 1 / runner.weight(batch), step).message, "");
    runner.descend(0.2);
  }
  EXPECT_LT(runner.evaluate(batch), 0.5 * before);
}

TEST_F(TorchTaskTest, batches_load_from_several_threads_at_once) {
  TaskRunner runner(plugin_, "");
  runner.start();
  std::vector<TaskRunner::Batch> batches(8);
  {
    std::vector<std::jthread> threads;
    for (auto& slot : batches) threads.emplace_back([&] { slot = runner.load(kIds); });
  }
  ASSERT_EQ(runner.train(batches[0]).message, "");
  const double first = runner.loss;
  for (const auto& batch : batches) {
    ASSERT_EQ(runner.train(batch).message, "");
    EXPECT_EQ(runner.loss, first);
  }
}

TEST_F(TorchTaskTest, the_modules_own_memory_is_freed_when_it_is_bound) {
  TaskRunner runner(plugin_, "");
  runner.start();
  // A value that changes in the strategy's storage changes the result: the module has no copy.
  const auto batch = runner.load(kIds);
  const double before = runner.evaluate(batch);
  std::fill(runner.values[1].begin(), runner.values[1].end(), 0.0f);  // "frozen" scales the output
  EXPECT_NE(runner.evaluate(batch), before);
}

struct Misuse {
  const char* oddity;
  uint32_t code;
  const char* message;
};

class MisuseTest : public TorchTaskTest, public testing::WithParamInterface<Misuse> {};

TEST_P(MisuseTest, is_an_error_that_says_what_is_wrong) {
  TaskRunner runner(plugin_, std::string("oddity = '") + GetParam().oddity + "'");
  runner.start();
  const auto failure = runner.train(runner.load(kIds));
  EXPECT_EQ(failure.code, GetParam().code);
  EXPECT_THAT(failure.message, HasSubstr(std::string("small: ") + GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Losses, MisuseTest,
    testing::Values(Misuse{"vector loss", PL_ERROR_FAILED,
                           "loss() returned shape (8), expected the sum, a scalar"},
                    Misuse{"narrow loss", PL_ERROR_FAILED,
                           "loss() returned BFloat16, expected a sum in float32 or float64"},
                    Misuse{"constant loss", PL_ERROR_FAILED, "the loss does not lead back to any parameter"},
                    Misuse{"out of memory", PL_ERROR_OUT_OF_MEMORY, ""},
                    Misuse{"batch norm", PL_ERROR_FAILED, "buffer batch_norm."}));

TEST_F(TorchTaskTest, a_refused_gradient_comes_out_of_the_backward_pass_unchanged) {
  TaskRunner runner(plugin_, "");
  runner.start();
  runner.fail_ready = "sharded: rank 1 is gone";
  const auto failure = runner.train(runner.load(kIds));
  EXPECT_EQ(failure.code, PL_ERROR_PEER);
  EXPECT_EQ(failure.message, "sharded: rank 1 is gone");
  runner.fail_ready.clear();
  EXPECT_EQ(runner.train(runner.load(kIds)).message, "") << "the task is still usable";
}

TEST_F(TorchTaskTest, a_device_that_is_not_there_is_unsupported) {
  TaskRunner runner(plugin_, "");
  runner.context.run.device = {PL_DEVICE_CUDA, 0};
  ASSERT_EQ(runner.create().message, "");
  const auto failure = fake::take(runner.api().open(runner.task()));
  if (failure.code == 0) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_EQ(failure.code, PL_ERROR_UNSUPPORTED);
  EXPECT_THAT(failure.message, HasSubstr("small: cuda:0: "));
}

TEST_F(TorchTaskTest, tensors_cross_in_both_directions_without_a_copy) {
  const at::Tensor t = at::arange(12, at::kFloat).view({3, 4}).t();
  const pl_tensor view = pipeline::to_pl(t);
  EXPECT_EQ(view.data, t.data_ptr());
  ASSERT_NE(view.strides, nullptr);
  const at::Tensor back = pipeline::to_torch(view);
  EXPECT_EQ(back.data_ptr(), t.data_ptr());
  EXPECT_TRUE(at::equal(back, t));
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool}) {
    EXPECT_EQ(pipeline::to_torch(pipeline::to_pl(type)), type);
  }
  EXPECT_THROW(pipeline::to_pl(at::kComplexFloat), pipeline::Error);
  EXPECT_THROW(pipeline::to_torch(pl_dtype{PL_DTYPE_FLOAT, 7, 1}), pipeline::Error);
}

}  // namespace
