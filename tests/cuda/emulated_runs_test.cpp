// Whole runs on an emulated device (emulator/README.md): every job as on the CPU, and what only a device can
// get wrong without one.
#include <cmath>
#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "tests/e2e/jobs.hpp"
#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;

template <class JobT>
class EmulatedRuns : public SameRunOf<JobT> {
 protected:
  EmulatedRuns() {
    ::setenv("LD_LIBRARY_PATH", PIPELINE_BUILD_DIR "/tests/emulator/torch/lib", 1);
    ::setenv("FAKE_CUDA_GIB", "8", 1);
  }
  ~EmulatedRuns() override {
    ::unsetenv("LD_LIBRARY_PATH");
    ::unsetenv("FAKE_CUDA_GIB");
  }

  void run(const std::string& dir, Words values) {
    values.push_back("run.dir=" + dir);
    const Result result = this->call("run", values);
    ASSERT_EQ(result.code, 0) << dir << "\n" << result.out << result.err;
  }
  // Norms may be missing: with float16 the first steps are skipped until the scale of the loss is found.
  std::vector<double> losses_alone(const std::string& dir) const {
    std::vector<double> values;
    for (const auto& line : read_json_lines(this->path(dir + "/metrics.jsonl")))
      values.push_back(line["loss"]);
    return values;
  }
  // How often the host waited for the device, by what it called.
  std::map<std::string, int> waits(int steps) {
    const std::string file = this->path("waits-" + std::to_string(steps));
    ::setenv("COUNT_WAITS", file.c_str(), 1);
    run(file + "-run",
        {"run.device=cuda", "train.max_steps=" + std::to_string(steps), "evaluate.every=0",
         "evaluate.at_end=false", "checkpoint.every=0", "loader.workers=1", "run.reproducible=false"});
    ::unsetenv("COUNT_WAITS");
    std::map<std::string, int> counts;
    for (const std::string& line : read_lines(file)) {
      const size_t space = line.find(' ');
      counts[line.substr(0, space)] = std::stoi(line.substr(space));
    }
    return counts;
  }
};

TYPED_TEST_SUITE(EmulatedRuns, Jobs, JobNames);

// A start on the emulated device takes three seconds, so that one run serves several comparisons.
TYPED_TEST(EmulatedRuns, LearnAsOnTheCpu) {
  this->run("cpu", {"run.device=cpu", "train.precision=fp32"});
  const std::vector<double> wanted = this->losses_alone("cpu");
  std::map<std::string, double> bands{{"fp32", 1e-4}, {"bf16", 0.1}};
  if (std::is_same_v<TypeParam, SmallJob>)
    bands["fp16"] = 0.1;  // the scale of the loss is no affair of the task
  for (const auto& [precision, band] : bands) {
    this->run(precision, {"run.device=cuda", "train.precision=" + precision,
                          std::string("run.reproducible=") + (precision == "fp32" ? "true" : "false")});
    const std::vector<double> seen = this->losses_alone(precision);
    ASSERT_EQ(seen.size(), wanted.size());
    for (size_t i = 0; i < seen.size(); ++i)
      EXPECT_NEAR(seen[i], wanted[i], band * std::abs(wanted[i])) << precision << ", step " << i + 1;
  }

  for (const char* steps : {"train.max_steps=7", "train.max_steps=12"})
    this->run("continued",
              {"run.device=cuda", "train.precision=fp32", "train.activation_checkpointing=true", steps});
  EXPECT_EQ(this->curve("continued"), this->curve("fp32")) << "recomputed and continued";

  constexpr bool predicts = !requires { requires !TypeParam::kPredicts; };
  for (const char* verb : {"evaluate", "predict", "export"}) {
    if (!predicts && std::string(verb) == "predict") continue;
    auto words = Words{"run.device=cuda", "train.precision=fp32", "run.dir=fp32"};
    if (std::string(verb) == "evaluate") words.insert(words.end(), {"--split", "val"});
    const Result result = this->call(verb, words);
    EXPECT_EQ(result.code, 0) << verb << "\n" << result.out << result.err;
  }
}

// A step waits only for the figures of the step before.
TYPED_TEST(EmulatedRuns, WaitOnceAStep) {
  const auto few = this->waits(4), many = this->waits(10);
  ASSERT_FALSE(few.empty());
  ASSERT_FALSE(many.empty());
  for (const auto& [call, count] : many)
    EXPECT_LE(count - few.at(call), call == "cudaEventSynchronize" ? 6 : 0) << call;
}

class EmulatedRun : public EmulatedRuns<SmallJob> {};

TEST_F(EmulatedRun, ADeviceForEachProcessIsNotThere) {
  EXPECT_THAT(call("run", {"run.device=cuda", "launch.processes=2"}).ended(2).err,
              HasSubstr("2 processes on this host need a CUDA device each, and there is 1"));
}

TEST_F(EmulatedRun, SaysWhatThereWasTooLittleMemoryFor) {
  ::setenv("FAKE_CUDA_GIB", "1", 1);
  const Result result = call(
      "run", {"run.device=cuda", "task.language.hidden_size=2048", "task.language.num_hidden_layers=24"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("CUDA out of memory"));
}

TEST_F(EmulatedRun, GoesToTheCpuWhereTheDeviceIsHidden) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const Result result = call("run", {"run.device=auto"});
  const Result asked = call("run", {"run.device=cuda", "run.dir=asked"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("device     cpu"));
  EXPECT_EQ(asked.code, 2);
  EXPECT_THAT(asked.err, HasSubstr("CUDA_VISIBLE_DEVICES= hides them all: unset it"));
}

}  // namespace
}  // namespace pipeline::tests
