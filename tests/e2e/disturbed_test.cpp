// What others do to a run, or to a verb's output: another process that writes there, a folder that is
// removed, a limit of memory, a task that hangs. Each ends in an error that says it, and none in exit code 0.
#include <algorithm>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <unistd.h>
#include <test_paths.hpp>

#include "core/base/file_lock.hpp"
#include "core/base/socket.hpp"
#include "tests/e2e/job.hpp"
#include "tests/e2e/program.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const std::string kConfig = linear_run() + R"([train]
global_batch = 16
micro_batch = 4
max_steps = 20
[checkpoint]
every = 5
)";

class Disturbed : public testing::Test, public Job {
 protected:
  Disturbed() { write_text(path("train.toml"), kConfig); }

  Words command(const std::string& verb, const Words& more = {}) const {
    return pipeline_command(Words{verb, "train.toml"} + more);
  }
  // The end of a long run to which this is done when it has a checkpoint.
  Result disturbed(const std::function<void()>& what) const {
    fs::remove_all(path("run"));
    Process process(command("run", {"train.max_steps=10000000"}), folder());
    EXPECT_TRUE(eventually([&] { return has_checkpoint() || !process.is_running(); }));
    what();
    return process.wait();
  }
  bool is_there(const std::string& name) const { return fs::exists(path(name)); }
  // Any: on a fast disk the first is gone within milliseconds.
  bool has_checkpoint() const {
    std::error_code ignored;
    return std::ranges::any_of(
        fs::directory_iterator(path("run/checkpoints"), ignored),
        [](const auto& entry) { return entry.path().filename().string().starts_with("step-"); });
  }
};

TEST_F(Disturbed, TwoProcessesAtOneOutputAreRefusedByEveryVerbThatNeedsIt) {
  call("run").ended(0);
  const struct {
    std::string verb, output, place;
    bool is_folder;
  } cases[] = {{"predict", "out.csv", "out-files", false},
               {"predict", "out-files/inside.csv", "out-files", false},
               {"evaluate", "out.json", "out-files", false},
               {"export", "out", "out", true},
               {"find-lr", "out", "out", true},
               {"predict", "", "run/submission-files", false},
               {"evaluate", "", "run/evaluation-test-files", false},
               {"export", "", "run/export", true}};
  const std::string other = "process " + std::to_string(::getpid()) + " on " + host_name() +
                            " writes there: wait for it, stop it, or choose another ";
  for (const auto& [verb, output, place, is_folder] : cases) {
    Words more;
    if (!output.empty()) more = {"--output", output};
    {
      const OutputLock lock(path(place), path(place), "");
      const Result refused = call(verb, more);
      EXPECT_EQ(refused.code, 2) << verb << refused.out;
      EXPECT_THAT(refused.err, HasSubstr(other)) << verb;
    }
    EXPECT_EQ(call(verb, more).code, 0) << verb;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder()))
      EXPECT_TRUE(entry.path().extension() != ".lock" || entry.path().filename() == ".lock") << entry.path();
    if (output.empty()) continue;
    fs::remove_all(path(place));
    fs::remove_all(path(output));
  }
}

TEST_F(Disturbed, TwoPredictionsWithOneOutputAreNeverMixed) {
  call("run", {"checkpoint.keep=10"}).ended(0);
  const std::string kFirst = "run/checkpoints/step-00000005";
  const auto arguments = [](const std::string& checkpoint, const std::string& output) {
    return Words{"--checkpoint",         checkpoint, "--output", output, "train.micro_batch=1",
                 "train.global_batch=16"};
  };
  call("predict", arguments(kFirst, "a.csv")).ended(0);
  call("predict", arguments("last", "b.csv")).ended(0);
  const std::string texts[] = {read_text(path("a.csv")), read_text(path("b.csv"))};
  ASSERT_NE(texts[0], texts[1]);
  Process first(command("predict", arguments(kFirst, "both.csv")), folder()),
      second(command("predict", arguments("last", "both.csv")), folder());
  const Result results[] = {first.wait(), second.wait()};
  for (const Result& result : results)
    if (result.code != 0) {
      EXPECT_EQ(result.code, 2) << result.err;
      EXPECT_THAT(result.err, HasSubstr(" writes there: "));
    }
  EXPECT_TRUE(results[0].code == 0 || results[1].code == 0);
  EXPECT_THAT(read_text(path("both.csv")), AnyOf(texts[0], texts[1]));
}

TEST_F(Disturbed, ARunWhoseFilesAreTakenAwayFailsAndSaysWhatIsLost) {
  const auto expect = [&](const std::function<void()>& what, const auto& error) {
    const Result result = disturbed(what).ended(1);
    EXPECT_THAT(result.err, error);
    EXPECT_THAT(result.out, Not(HasSubstr("done: ")));
  };
  expect(
      [&] {
        std::error_code ignored;
        while (is_there("run")) fs::remove_all(path("run"), ignored);
      },
      AnyOf(HasSubstr(" was removed while "), HasSubstr(" was removed or replaced"),
            HasSubstr("No such file")));
  expect([&] { fs::rename(path("run"), path("moved")); },
         AllOf(HasSubstr("run: was moved to moved while"), HasSubstr("move it back")));
  EXPECT_FALSE(is_there("run"));
  expect([&] { fs::rename(path("run"), path("moved2")), fs::create_directories(path("run")); },
         HasSubstr("run: was moved to moved2 while"));
  expect(
      [&] { fs::remove(path("run/metrics.jsonl")); },
      AllOf(HasSubstr("run/metrics.jsonl: was removed or replaced"), HasSubstr("the same command goes on")));
  ASSERT_TRUE(is_there("run/checkpoints"));
  expect([&] { fs::remove(path("run/.lock")); },
         HasSubstr("run/.lock: was removed while the run uses its folder"));
  EXPECT_TRUE(is_there("run/.lock")) << "without it the same command would not take the folder for its own";
}

TEST_F(Disturbed, OneProcessThatHangsEndsAndSaysWhere) {
  const Result result = call("run", {"plugins.paths=[\"" PIPELINE_BUILD_DIR "/tests/zoo\"]",
                                     "task.plugin=stuck", "launch.stall_seconds=5"})
                            .ended(1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("error: no progress for "), HasSubstr(" in training, step 1"),
                                HasSubstr("hangs here, in training, step 1:\n  threads: main waits")));
}

// Threads that the system does not give, and memory that ends anywhere: a sentence, never a terminated
// process.
TEST_F(Disturbed, WithoutMemoryItSaysSoWhereverThatIs) {
#ifdef PIPELINE_SANITIZED
  GTEST_SKIP() << "sanitizers map terabytes of address space, so it cannot be limited";
#endif
  int failures = 0;
  for (int kib = 60'000; kib <= 460'000; kib += 40'000) {
    fs::remove_all(path("run"));
    const auto limited = [&](const Words& words) {
      const Words shell{"/bin/sh", "-c", "ulimit -v " + std::to_string(kib) + " && exec \"$@\"", "sh"};
      return Process(shell + words, folder()).wait();
    };
    // Where not even its libraries have room, the loader has the word.
    if (limited(pipeline_command({"--version"})).code != 0) continue;
    const Result result = limited(command("run"));
    if (result.code == 0) continue;
    ++failures;
    EXPECT_EQ(result.code, 1) << kib << ": " << result.err;
    EXPECT_THAT(result.err, AllOf(Not(HasSubstr("terminate called")),
                                  AnyOf(HasSubstr("error: out of memory on the host"),
                                        HasSubstr("error: the system gives no thread"))))
        << kib;
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace pipeline::tests
