// What the core does for a device, with a driver that is none (tests/c_plugins/fake_cuda.c): the stream that
// it makes and gives to all, metrics that are read from it a step late.
#include <gmock/gmock.h>

#include <cstdlib>
#include <test_paths.hpp>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;

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

// The two plugins fail where it is not the run's; the metric is the loss.
TEST_F(DeviceStream, IsTheRunsAndItsMetricsAreThoseOfTheirStep) {
  const Result run = call("run", {"--plugin-path", PIPELINE_BUILD_DIR "/tests/device_plugins"});
  ASSERT_EQ(run.code, 0) << run.out << run.err;
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
  const Result run = call("run", {"--plugin-path", PIPELINE_BUILD_DIR "/tests/device_plugins", "--set",
                                  "observe.empty_cache_every=3"});
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  size_t times = 0;
  for (size_t at = 0; (at = run.out.find("cache is emptied", at)) != std::string::npos; ++at) ++times;
  EXPECT_EQ(times, 2u) << run.out;  // after steps 3 and 6 of 7
}

}  // namespace
}  // namespace pipeline::tests
