// The plugins in plain C, trained through the wrappers: without LibTorch, and under any sanitizer.
#include "tests/c_plugins/training.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <test_paths.hpp>

namespace pipeline::plugins {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kBuilt = fs::path(PIPELINE_BUILD_DIR) / "tests/plugins";
const fs::path kFrozen = fs::path(PIPELINE_BUILD_DIR) / "tests/frozen_plugins";

TrainingArgs c_plugins(const fs::path& root = kBuilt) {
  TrainingArgs args;
  args.task = root / "tasks/linear_regression.so";
  args.strategy = root / "strategies/plain_sgd.so";
  return args;
}

TEST(CPlugins, FindTheLineThatTheDataLieOn) {
  TrainingArgs args = c_plugins();
  args.steps = 200;
  const TrainingResult result = train(args);
  EXPECT_GT(result.losses.front(), 0.1);
  EXPECT_LT(result.losses.back(), 1e-9);
  const float expected[] = {0.25f, -0.5f, 0.75f, -1.0f, 0.5f};  // of linear_regression_data.c, then the bias
  ASSERT_EQ(result.values.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(result.values[i], expected[i], 1e-4) << i;
}

TEST(CPlugins, GradientsInPlaceAndHandedOverTrainAlike) {
  TrainingArgs args = c_plugins();
  const TrainingResult in_place = train(args);
  args.sets = {"strategy.hand_over=true"};
  const TrainingResult handed = train(args);
  EXPECT_EQ(in_place.losses, handed.losses);
  EXPECT_EQ(in_place.values, handed.values);
}

// What `pipeline new strategy` copies in C++ is plain_sgd again.
TEST(CPlugins, TheStrategyInCppTrainsAsTheOneInC) {
  TrainingArgs args = c_plugins();
  const TrainingResult in_c = train(args);
  args.strategy = kBuilt / "strategies/host_sgd.so";
  const TrainingResult alone = train(args);
  EXPECT_EQ(alone.values, in_c.values);
  EXPECT_EQ(alone.losses, in_c.losses);
  args.backend = kBuilt / "backends/fake.so";
  EXPECT_EQ(train_with_threads(args, 4).values, in_c.values);
}

TEST(CPlugins, TheSameRunOnOneTwoAndFourRanks) {
  TrainingArgs args = c_plugins();
  const TrainingResult alone = train(args);
  args.backend = kBuilt / "backends/fake.so";
  for (int ranks : {2, 4}) {
    const TrainingResult together = train_with_threads(args, ranks);
    EXPECT_EQ(together.values, alone.values) << ranks << " ranks";
    for (std::size_t step = 0; step < alone.losses.size(); ++step)
      EXPECT_NEAR(together.losses[step], alone.losses[step], 1e-15);
  }
}

// Plugins built from the header as first released.
TEST(CPlugins, BuiltFromTheFrozenHeaderTrainAlike) {
  const TrainingResult now = train(c_plugins());
  const TrainingResult frozen = train(c_plugins(kFrozen));
  EXPECT_EQ(frozen.losses, now.losses);
  EXPECT_EQ(frozen.values, now.values);
  TrainingArgs mixed = c_plugins();
  mixed.strategy = kFrozen / "strategies/plain_sgd.so";
  EXPECT_EQ(train(mixed).values, now.values);
}

// A task bound to plain memory, to look at one call at a time.
class TaskTest : public ::testing::Test {
 protected:
  TaskTest()
      : plugin_(Plugin::load(kBuilt / "tasks/linear_regression.so")),
        config_(config::load({.file = "", .sets = {"task.plugin=\"linear_regression\""}})
                    .plugin("task", plugin_.options())) {
    auto info = sized<pl_run_info>();
    info.device = {PL_DEVICE_CPU, 0};
    context_.set_run_info(info);
    context_.log = [this](std::uint32_t, std::string_view line) { lines_.emplace_back(line); };
    task_ = std::make_unique<Task>(plugin_, context_, &config_);
    task_->open();
    shapes_ = {{4}, {1}};
    for (std::size_t i = 0; i < 2; ++i) {
      pl_tensor value{};
      value.data = values_[i];
      value.device = {PL_DEVICE_CPU, 0};
      value.ndim = 1;
      value.dtype = {PL_DTYPE_FLOAT, 32, 1};
      value.shape = shapes_[i].data();
      pl_tensor grad = value;
      grad.data = grads_[i];
      task_->bind(i, value, grad);
    }
  }
  Batch load(std::vector<std::uint64_t> ids) {
    return task_->load({PL_SPLIT_TRAIN, PL_PURPOSE_TRAIN, ids, 0});
  }

  const Plugin& plugin_;
  pl_config config_;
  pl_context context_{"task linear_regression"};
  std::vector<std::string> lines_;
  std::unique_ptr<Task> task_;
  float values_[2][4] = {{1, 0, 0, 0}, {2}}, grads_[2][4] = {};
  std::vector<std::vector<std::int64_t>> shapes_;
};

TEST_F(TaskTest, TellsItsFacts) {
  EXPECT_EQ(lines_, std::vector<std::string>{"4 features, 256 samples"});
  EXPECT_EQ(task_->sample_count(PL_SPLIT_VAL), 64u);
  EXPECT_EQ(task_->sample_count(9), 0u);
  EXPECT_EQ(task_->data_fingerprint(), "formula-1 4 256 64 32 0");
  EXPECT_EQ(task_->sample_name(PL_SPLIT_TEST, 3), "point-3");
  EXPECT_FALSE(task_->has_prepare());
  EXPECT_FALSE(task_->has_sample_costs());
  ASSERT_EQ(task_->parameters().size(), 2u);
  EXPECT_EQ(std::string(task_->parameters()[0].name.ptr, task_->parameters()[0].name.len), "weight");
  ASSERT_EQ(task_->metrics().size(), 1u);
  EXPECT_EQ(task_->metrics()[0].name, "mean_absolute_error");
  EXPECT_EQ(task_->metrics()[0].source, "absolute_error");
  EXPECT_EQ(*task_->flops(load({0, 1})), 4.0 * 4 * 2);
}

// The gradient against the difference quotient of the evaluation's loss.
TEST_F(TaskTest, GradientsAreThoseOfTheLoss) {
  const Batch batch = load({0, 1, 2});
  EXPECT_EQ(batch.weight(), 3);
  auto sink = sized<pl_gradient_sink>();
  int arrived = 0;
  sink.user = &arrived;
  sink.ready = [](void* user, const pl_gradient*) -> pl_error* {
    return ++*static_cast<int*>(user), nullptr;
  };
  auto args = sized<pl_train_args>();
  args.scale = 0.5;
  args.gradients = &sink;
  task_->train(batch, args);
  EXPECT_EQ(arrived, 2);
  const auto loss = [&] {
    double sum = 0;
    EvaluationSink evaluation;
    evaluation.value = [&](const EvaluationValue& value) { sum += value.name == "loss" ? value.sum : 0; };
    task_->evaluate(batch, {}, evaluation);
    return sum;
  };
  for (std::size_t j = 0; j < 4; ++j) {
    const float kept = values_[0][j];
    values_[0][j] = kept + 0.01f;
    const double above = loss();
    values_[0][j] = kept - 0.01f;
    const double below = loss();
    values_[0][j] = kept;
    EXPECT_NEAR(grads_[0][j], 0.5 * (above - below) / 0.02, 1e-4) << j;
  }
}

TEST_F(TaskTest, PredictsRowsAndShowsSamples) {
  const Batch batch = load({5, 6});
  std::vector<std::string> rows;
  PredictionSink sink;
  sink.row = [&](std::uint64_t id, std::span<const std::string_view> fields) {
    rows.push_back(std::to_string(id) + "," + std::string(fields[0]));
  };
  task_->predict(batch, {}, sink);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].starts_with("5,")) << rows[0];
  EXPECT_EQ(task_->prediction_columns(), std::vector<std::string>{"prediction"});

  std::vector<std::string> samples;
  EvaluationSink evaluation;
  evaluation.sample = [&](std::uint64_t, std::string_view text) { samples.emplace_back(text); };
  pl_evaluate_args args{};
  args.samples_to_show = 1;
  task_->evaluate(batch, args, evaluation);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_THAT(samples[0], HasSubstr("predicted "));
}

TEST_F(TaskTest, WhatASinkThrowsComesOutAsItWas) {
  struct DiskIsFull {};
  PredictionSink sink;
  sink.row = [](std::uint64_t, std::span<const std::string_view>) { throw DiskIsFull(); };
  const Batch batch = load({5, 6});
  EXPECT_THROW(task_->predict(batch, {}, sink), DiskIsFull);
  task_->predict(batch, {}, PredictionSink());  // and nothing is left behind
}

TEST_F(TaskTest, ErrorsNameThePlugin) {
  try {
    load({256});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "task linear_regression: load: sample 256 of a split that has 256");
  }
}

TEST_F(TaskTest, ExportsAndImports) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("export-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  task_->export_model(folder);
  task_->import_model(folder);
  float weight[4], bias[1];
  task_->initialize(0, weight);
  task_->initialize(1, bias);
  EXPECT_EQ(std::vector<float>(weight, weight + 4), (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(bias[0], 2);
  std::ofstream(folder / "weights.txt") << "1 2 3\n";
  try {
    task_->import_model(folder);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), PL_ERROR_CONFIG);
    EXPECT_STREQ(e.what(), "weights.txt: has 3 numbers, must have 5 (model.features and the bias)");
  }
  fs::remove_all(folder);
}

#ifdef PIPELINE_THREAD_CHECKS
TEST_F(TaskTest, MainSlotsFromAnotherThreadAreRefused) {
  std::string message;
  std::thread([&] {
    try {
      task_->sample_count(PL_SPLIT_TRAIN);
    } catch (const Error& e) {
      message = e.what();
    }
  }).join();
  EXPECT_THAT(message, HasSubstr("task linear_regression: sample_count is tagged [main]"));
}
#endif

}  // namespace
}  // namespace pipeline::plugins
