// Runs that log to Weights & Biases, by a package of the same interface that notes what it is told. With the
// real one: tests/parity/observe_parity.py.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPackage = R"(import json, os, time

WHAT = os.environ.get("FAKE_WANDB")
if WHAT == "is missing":
    raise ImportError("No module named 'wandb'")

def note(*call):
    with open(os.environ["FAKE_WANDB_CALLS"], "a") as file:
        print(json.dumps(call), file=file)

class Settings:
    def __init__(self, console): pass

class Run:
    def define_metric(self, name, step_metric=None): pass
    def log(self, figures):
        note("log", figures)
        if WHAT == "dies": os._exit(3)
        while WHAT == "is slow" and not os.path.exists("uploaded"): time.sleep(0.01)
    def finish(self, exit_code): note("finish", exit_code)

def init(project, name, config, dir, id, resume, settings):
    if WHAT == "refuses": raise Exception("no account:\n  log in")
    note("init", project, name, id, config["train.global_batch"], config["task.plugin"])
    run = Run()
    run.id = id or "abc"
    return run
)";

class Wandb : public testing::Test {
 protected:
  Wandb() {
    write_text(job_.path("train.toml"), linear_run() + R"([train]
global_batch = 8
micro_batch = 2
max_steps = 12
[evaluate]
every = 6
[checkpoint]
every = 5
[observe]
wandb = true
wandb_project = "lines"
)");
    write_text(job_.path("python/wandb.py"), kPackage);
    ::setenv("PYTHONPATH", job_.path("python").c_str(), 1);
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    ::setenv("FAKE_WANDB_CALLS", job_.path("calls").c_str(), 1);
  }
  ~Wandb() override { ::unsetenv("FAKE_WANDB"); }

  void package(const char* does) { ::setenv("FAKE_WANDB", does, 1); }
  std::vector<json> calls() const {
    std::vector<json> calls;
    const std::string text = std::filesystem::exists(job_.path("calls")) ? read_text(job_.path("calls")) : "";
    std::istringstream whole(text.substr(0, text.rfind('\n') + 1));  // the last line may be half written
    for (std::string line; std::getline(whole, line);) calls.push_back(json::parse(line));
    return calls;
  }
  // Starts a run that does not end by itself, in steps that take a while.
  Process start() const {
    return Process(pipeline_command({"run", "train.toml", "train.max_steps=1000000000", "evaluate.every=0",
                                     "checkpoint.every=0", "train.global_batch=1024", "train.micro_batch=1"}),
                   job_.folder());
  }

  Job job_;
};

TEST_F(Wandb, HasEachStepAndEvaluationOnceAlsoOfAContinuedRun) {
  Result result = job_.call("run").ended(0);
  std::filesystem::remove_all(job_.path("run/checkpoints/step-00000012"));  // so that 11 and 12 are repeated
  result = job_.call("run", {"train.max_steps=18"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("continued from run/checkpoints/step-00000010"));
  EXPECT_THAT(result.out, Not(HasSubstr("warning")));

  std::vector<json> inits, ends;
  std::vector<int> steps, evaluations;
  for (const json& call : calls()) {
    if (call[0] == "init") inits.push_back(call);
    if (call[0] == "finish") ends.push_back(call[1]);
    if (call[0] != "log") continue;
    const bool is_step = call[1].contains("train/loss");
    EXPECT_NE(is_step, call[1].contains("eval/loss"));
    (is_step ? steps : evaluations).push_back(call[1]["step"]);
  }
  EXPECT_THAT(inits, ElementsAre(json{"init", "lines", "run", nullptr, 8, "linear_regression"},
                                 json{"init", "lines", "run", "abc", 8, "linear_regression"}));
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18));
  EXPECT_THAT(evaluations, ElementsAre(6, 12, 18));
  EXPECT_THAT(ends, ElementsAre(0, 0));
}

TEST_F(Wandb, WhatIsMissingIsAnErrorBeforeTraining) {
  const auto refused = [&] {
    const Result result = job_.call("run").ended(2);
    EXPECT_FALSE(std::filesystem::exists(job_.path("run/metrics.jsonl")));
    return result.err;
  };
  package("is missing");
  EXPECT_THAT(refused(), testing::ContainsRegex(
                             "train.toml:20: observe.wandb = true: .*python3 cannot import the package wandb "
                             "\\(No module named 'wandb'\\): `python3 -m pip install wandb`"));
  package("refuses");
  EXPECT_THAT(refused(), HasSubstr("observe.wandb = true: no account: log in\n"));
  write_text(job_.path("python/mlflow.py"), "raise ImportError('not here')");
  EXPECT_THAT(job_.call("run", {"observe.wandb=false", "observe.mlflow=true"}).err,
              testing::ContainsRegex("--set observe.mlflow=true: .*python3 cannot import the package mlflow "
                                     "\\(not here\\): `python3 -m pip install mlflow`"));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", job_.path("none").c_str(), 1);
  EXPECT_THAT(refused(), HasSubstr("observe.wandb = true: python3 cannot be started (No such file"));
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(Wandb, AClientThatDiesIsOneWarning) {
  package("dies");
  Process run = start();
  ASSERT_TRUE(eventually([&] { return run.output().find("goes on without it") != std::string::npos; }));
  run.signal(SIGINT);
  const Result result = run.wait().ended(75);
  const std::string warning = "warning: the client of Weights & Biases has ended";
  EXPECT_EQ(result.out.find(warning), result.out.rfind(warning)) << result.out;
  EXPECT_THAT(result.out, HasSubstr("see run/logs/wandb.log"));
}

TEST_F(Wandb, AClientThatOutlivesTheRunCopiesTheRestAndSaysHowItEnded) {
  namespace fs = std::filesystem;
  package("is slow");
  for (const auto& [signal, exit_code] : {std::pair{SIGINT, 75}, {SIGKILL, 1}}) {
    Process run = start();
    ASSERT_TRUE(eventually([&] { return calls().size() == 2; })) << "it is held up by the first step";
    const auto size = [&] { return fs::file_size(job_.path("run/metrics.jsonl")); };
    ASSERT_TRUE(eventually([&, then = size()] { return size() > then; })) << "which the run is not";
    run.signal(signal);
    run.wait();
    fs::rename(job_.path("run"), job_.path("old"));  // --fresh renames it so
    write_text(job_.path("uploaded"), "");
    EXPECT_TRUE(eventually([&] { return calls().back() == json{"finish", exit_code}; })) << calls().back();
    std::vector<int> steps, logged;
    std::istringstream lines(read_text(job_.path("old/metrics.jsonl")));
    for (std::string line; std::getline(lines, line) && !lines.eof();)
      steps.push_back(json::parse(line)["step"]);
    for (const json& call : calls())
      if (call[0] == "log") logged.push_back(call[1]["step"]);
    EXPECT_EQ(logged, steps);
    EXPECT_EQ(read_json(job_.path("old/wandb/run.json"))["logged"]["train"], steps.back());
    for (const char* const left : {"old", "uploaded", "calls"}) fs::remove_all(job_.path(left));
  }
}

TEST_F(Wandb, ARunThatIsKilledHasFailedThereAndOneThatBeginsAnewIsAnother) {
  Process run = start();
  ASSERT_TRUE(eventually([&] { return calls().size() > 20; }));
  run.signal(SIGKILL);
  run.wait();
  EXPECT_TRUE(eventually([&] { return calls().back() == json{"finish", 1}; })) << calls().back();
  std::filesystem::remove(job_.path("calls"));
  const Result result = job_.call("run");  // there is no checkpoint
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(calls().front(), (json{"init", "lines", "run", nullptr, 8, "linear_regression"}));
  EXPECT_EQ(calls().size(), 1u + 12 + 2 + 1);
}

}  // namespace
}  // namespace pipeline::tests
