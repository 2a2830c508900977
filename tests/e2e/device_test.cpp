// What the core does for a device, with a driver that is none (tests/c_plugins/fake_cuda.c): the stream that
// it makes and gives to all, metrics that are read from it a step late.
#include <gmock/gmock.h>

#include <cstdlib>
#include <test_paths.hpp>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

class DeviceStream : public testing::Test, public Job {
 protected:
  DeviceStream() {
    write_text(path("train.toml"), R"([run]
dir = "run"
device = "cuda"
[task]
plugin = "device_regression"
[strategy]
plugin = "device_sgd"
[optimizer]
kind = "sgd"
lr = 0.1
[train]
precision = "fp32"
global_batch = 8
micro_batch = 4
max_steps = 7
[evaluate]
every = 3
)");
    ::setenv("LD_LIBRARY_PATH", PIPELINE_BUILD_DIR "/tests/fake_cuda", 1);
  }
  ~DeviceStream() override { ::unsetenv("LD_LIBRARY_PATH"); }
};

// The two plugins fail where the stream is not the run's; the metric is the loss.
TEST_F(DeviceStream, IsTheRunsAndItsMetricsAreThoseOfTheirStep) {
  const Result run = call("run", {"--plugin-path", PIPELINE_BUILD_DIR "/tests/device_plugins"}).ended(0);
  EXPECT_THAT(run.out, HasSubstr("cuda:0 (fake device"));
  const auto lines = read_lines(path("run/metrics.jsonl"));
  ASSERT_EQ(lines.size(), 7u);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto step = nlohmann::json::parse(lines[i]);
    EXPECT_EQ(step["step"], i + 1);
    EXPECT_NEAR(step["half_squares"].get<double>(), step["loss"].get<double>(), 1e-12) << step;
  }
}

TEST_F(DeviceStream, UnusedMemoryIsReturnedEverySoManySteps) {
  const Result run = call("run", {"--plugin-path", PIPELINE_BUILD_DIR "/tests/device_plugins",
                                  "observe.empty_cache_every=3"})
                         .ended(0);
  size_t times = 0;
  for (size_t at = 0; (at = run.out.find("cache is emptied", at)) != std::string::npos; ++at) ++times;
  EXPECT_EQ(times, 3u) << run.out;  // before the first step, and after steps 3 and 6 of 7
}

// fake_nvml.c knows the device by its UUID, and says 60% and 80% in turns.
TEST_F(DeviceStream, ItsUtilisationIsRecordedWhereThereIsNvml) {
  ::setenv("LD_LIBRARY_PATH", PIPELINE_BUILD_DIR "/tests/fake_cuda:" PIPELINE_BUILD_DIR "/tests/fake_nvml",
           1);
  const Result run =
      call("run", {"--plugin-path", PIPELINE_BUILD_DIR "/tests/device_plugins", "train.max_steps=unset",
                   "train.max_seconds=1.5", "schedule.kind=constant", "evaluate.every=0"})
          .ended(0);
  const auto lines = read_lines(path("run/metrics.jsonl"));
  EXPECT_FALSE(nlohmann::json::parse(lines.front()).contains("device_utilisation"));
  EXPECT_EQ(nlohmann::json::parse(lines.back())["device_utilisation"], 0.6) << "known after a second";
  const auto rank = read_json(path("run/summary.json"))["ranks"][0];
  EXPECT_EQ(rank["device_utilisation"], 0.6);
  EXPECT_EQ(rank["driver_memory"], 640 << 20);
  EXPECT_THAT(run.out, HasSubstr("  busy 60%"));
}

TEST_F(DeviceStream, WithoutNvmlNothingIsSaid) {
  const Result run = call("run", {"--plugin-path", PIPELINE_BUILD_DIR "/tests/device_plugins"});
  EXPECT_THAT(run.out, Not(HasSubstr("busy")));
  EXPECT_THAT(run.out + run.err, Not(HasSubstr("warning")));
  EXPECT_FALSE(read_json(path("run/summary.json"))["ranks"][0].contains("driver_memory"));
}

// Another process has half of the fake device's 1 GiB, and a sample takes 16 MiB (device_memory.c): 16
// samples fit, 32 would leave nothing.
class AutoMicroBatch : public DeviceStream {
 protected:
  Result run(const Words& more = {}) const {
    return call("run", more + Words{"--plugin-path", PIPELINE_BUILD_DIR "/tests/device_plugins",
                                    "train.global_batch=64", "train.micro_batch=auto"});
  }
};

TEST_F(AutoMicroBatch, IsTheLargestThatFitsAndIsKept) {
  const Result first = run().ended(0);
  EXPECT_THAT(first.out, HasSubstr("micro-batch 16, found for \"auto\""));
  EXPECT_THAT(first.out, HasSubstr("and 32 would take "));
  EXPECT_THAT(first.out, HasSubstr("for the same run elsewhere write train.micro_batch = 16\n"));
  EXPECT_THAT(first.out, HasSubstr("64 samples = micro-batch 16 x 4 accumulation steps"));
  EXPECT_THAT(read_text(path("run/config.toml")),
              testing::ContainsRegex("micro_batch = 16 +# --set train.micro_batch=auto \\(auto\\)"));
  EXPECT_EQ(read_json(path("run/summary.json"))["micro_batch"], 16);

  const Result longer = run({"train.max_steps=9"}).ended(0);
  EXPECT_THAT(longer.out, Not(HasSubstr("found for")));
  EXPECT_THAT(longer.out, HasSubstr("micro-batch 16 x 4"));
}

// A micro-batch of 8 takes more than four times as much as was predicted.
TEST_F(AutoMicroBatch, ASizeThatRunsOutOfMemoryIsNotTaken) {
  ::setenv("FAKE_CUDA_STEEP_FROM", "8", 1);
  const Result result = run();
  ::unsetenv("FAKE_CUDA_STEEP_FROM");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("64 samples = micro-batch 4 x 16 accumulation steps"));
}

}  // namespace
}  // namespace pipeline::tests
