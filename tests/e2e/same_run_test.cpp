// One configuration, another strategy, two processes: the same run. Every strategy on every number of
// processes is in same_run_matrix_test.cpp, which takes minutes.
#include <gmock/gmock.h>

#include "tests/e2e/same_run.hpp"
#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;

using SameRun = SameRunOf<SmallJob>;

TEST_F(SameRun, HasTheSameBitsOnTwoProcesses) {
  train({"single", 1});
  const std::string parameters = exported("single_1");
  for (const char* strategy : {"ddp", "sharded2", "sharded3"}) {
    const Arrangement arrangement{strategy, 2};
    train(arrangement);
    EXPECT_EQ(curve(arrangement.name()), curve("single_1")) << strategy;
    EXPECT_EQ(exported(arrangement.name()), parameters) << strategy;
  }
}

// 41 pairs for steps of 128, in micro-batches of 32: of three processes one has none, from the first step on.
TEST_F(SameRun, HasTheSameBitsWithFewerSamplesThanTheBatch) {
  const Words sets{"train.global_batch=128", "train.micro_batch=32", "train.max_steps=4"};
  train({"single", 1}, sets);
  ASSERT_EQ(curve("single_1").size(), 4u);
  const std::string parameters = exported("single_1");
  for (const char* strategy : {"ddp", "sharded1", "sharded2", "sharded3", "sharded3-1"}) {
    const Arrangement arrangement{strategy, 3};
    train(arrangement, sets);
    EXPECT_EQ(curve(arrangement.name()), curve("single_1")) << strategy;
    EXPECT_EQ(exported(arrangement.name()), parameters) << strategy;
  }
}

// Steps of 32 x 48 rows of 256: more than LibTorch and our own kernels leave to one thread.
TEST_F(SameRun, HasTheSameBitsOnAnyNumberOfThreads) {
  const auto run = [&](const std::string& dir, const char* threads, int steps) {
    call("run", {"run.dir=" + dir, std::string("launch.threads=") + threads,
                 "train.max_steps=" + std::to_string(steps), "train.global_batch=32", "train.micro_batch=16",
                 "task.language.hidden_size=256"})
        .ended(0);
    return curve(dir);
  };
  const auto expected = run("one", "1", 3);
  EXPECT_EQ(run("two", "2", 3), expected);
  EXPECT_EQ(run("three", "3", 3), expected);
  run("changing", "1", 1);
  EXPECT_EQ(run("changing", "2", 3), expected);
}

// LibTorch reads that variable, and so do our kernels: without it both are as wide as this machine has them.
TEST_F(SameRun, HasTheSameBitsOnProcessorsWithNarrowerVectors) {
  train({"single", 1});
  ::setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
  train({"single", 1}, {}, "narrow");
  ::unsetenv("ATEN_CPU_CAPABILITY");
  EXPECT_EQ(curve("narrow"), curve("single_1"));
}

TEST_F(SameRun, GoesOnUnderAnotherStrategy) {
  train({"single", 1});
  int step = 0;
  for (const Arrangement& arrangement :
       {Arrangement{"ddp", 2}, Arrangement{"sharded2", 2}, Arrangement{"single", 1}})
    train(arrangement, {"train.max_steps=" + std::to_string(step += 4)}, "chain");
  EXPECT_EQ(curve("chain"), curve("single_1"));
}

TEST_F(SameRun, IsTheSameOverEveryBackend) {
  train({"single", 1});
  for (const char* backend : {"gloo", "shm"}) {
    const Arrangement arrangement{"ddp", 2, backend};
    train(arrangement);
    EXPECT_EQ(curve(arrangement.name()), curve("single_1")) << backend;
  }
}

const Words kTerms{"task.loss.z_loss=0.01", "task.loss.label_smoothing=0.2"};

TEST_F(SameRun, HasTheSameBitsWithTermsOfTheLoss) {
  train({"single", 1}, kTerms);
  train({"sharded2", 2}, kTerms);
  EXPECT_EQ(curve("sharded2_2"), curve("single_1"));
  EXPECT_EQ(exported("sharded2_2"), exported("single_1"));
}

TEST_F(SameRun, OnlyTrainingHasTermsOfTheLoss) {
  Words still{"optimizer.lr=0.0"};
  train({"single", 1}, still, "plain");
  still.insert(still.end(), kTerms.begin(), kTerms.end());
  train({"single", 1}, still, "with_terms");
  const auto values = [&](const std::string& file, const char* key) {
    std::vector<double> all;
    for (const std::string& line : read_lines(path(file))) all.push_back(nlohmann::json::parse(line)[key]);
    return all;
  };
  EXPECT_EQ(values("with_terms/eval.jsonl", "loss"), values("plain/eval.jsonl", "loss"));
  const auto plain = values("plain/metrics.jsonl", "loss"),
             seen = values("with_terms/metrics.jsonl", "cross_entropy"),
             learnt = values("with_terms/metrics.jsonl", "loss");
  ASSERT_EQ(seen.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(seen[i], plain[i], 1e-6) << "step " << i + 1;
    EXPECT_GT(learnt[i], plain[i] + 0.1) << "step " << i + 1;  // 0.01 ln(300)^2 is 0.3
  }
}

TEST_F(SameRun, FindsOneMicroBatchForAllProcesses) {
  const Arrangement arrangement{"sharded2", 2};
  train(arrangement, {"train.micro_batch=4"}, "written");  // half of the global batch, which fits
  train(arrangement, {"train.micro_batch=auto"}, "found");
  EXPECT_EQ(curve("found"), curve("written"));
  EXPECT_EQ(exported("found"), exported("written"));
}

TEST_F(SameRun, DivergesOnAllRanksAtOnce) {
  const auto diverge = [&](const Arrangement& arrangement) {
    Words arguments{"optimizer.kind=sgd", "optimizer.lr=1e30", "run.dir=" + arrangement.name()};
    for (const std::string& text : arrangement.sets()) arguments.push_back(text);
    call("run", arguments).ended(2);
    EXPECT_FALSE(std::filesystem::exists(path(arrangement.name() + "/finished.txt")));
    return read_text(path(arrangement.name() + "/diverged.txt"));
  };
  const std::string alone = diverge({"single", 1});
  EXPECT_THAT(alone, HasSubstr("in 10 steps in a row, from step 2 on;"));
  EXPECT_EQ(diverge({"sharded2", 2}), alone);
}

TEST_F(SameRun, EvaluatesAndPredictsTheSame) {
  write_text(path("val.jsonl"), small_pairs(100, 37));
  train({"single", 1});
  train({"ddp", 2});
  // Evaluations between the steps of training.
  const auto evaluations = [&](const std::string& dir) {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : read_lines(path(dir + "/eval.jsonl"))) {
      lines.push_back(nlohmann::json::parse(line));
      lines.back().erase("seconds");
    }
    return lines;
  };
  EXPECT_EQ(evaluations("ddp_2"), evaluations("single_1"));
  // Evaluations and predictions by a verb, of one checkpoint.
  const auto with = [&](const std::string& verb, int processes, Words more) {
    const auto output = path(verb + "-" + std::to_string(processes));
    more.insert(more.end(), {"run.dir=single_1", "launch.processes=" + std::to_string(processes), "--output",
                             output.string()});
    call(verb, more).ended(0);
    return read_text(output);
  };
  const auto evaluated = [&](int processes) {
    auto json = nlohmann::json::parse(with("evaluate", processes, {"--split", "val"}));
    json.erase("seconds");
    return json;
  };
  const auto expected = evaluated(1);
  EXPECT_EQ(expected["samples"], 37);
  const std::string rows = with("predict", 1, {});
  EXPECT_THAT(rows, HasSubstr("x3,"));
  for (const int processes : {2, 3}) {
    EXPECT_EQ(evaluated(processes), expected) << processes;
    EXPECT_EQ(with("predict", processes, {}), rows) << processes;
  }
}

}  // namespace
}  // namespace pipeline::tests
