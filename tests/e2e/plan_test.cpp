// `pipeline plan` and `pipeline find-lr` as a user runs them, and what a run says of its memory in the end.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

class Plan : public testing::Test, public SmallJob {
 protected:
  json planned(const Words& more) const {
    return json::parse(call("plan", more + Words{"--json"}).ended(0).out);
  }
  static json row(const json& plan, const std::string& strategy) {
    for (const json& one : plan["strategies"])
      if (one["strategy"] == strategy) return one;
    return nullptr;
  }
  const std::vector<std::string> before_ = entries(folder());
};

// The model's 7 million parameters have a state that is not lost in what a process takes anyway.
TEST_F(Plan, PredictsThePeakOfARun) {
  const Words larger{"run.reproducible=false",
                     "task.language.num_hidden_layers=4",
                     "task.language.num_attention_heads=4",
                     "task.language.hidden_size=384",
                     "train.max_steps=3",
                     "evaluate.every=0",
                     "evaluate.at_end=false",
                     "checkpoint.every=0"};
  const json plan = planned(larger);
  const json memory = row(plan, "single")["memory"];
  const Result run = call("run", larger).ended(0);
  EXPECT_THAT(run.out,
              testing::ContainsRegex("memory +[0-9.]+ [MG]B at most; predicted in the first 3 steps: "));
  const json rank = read_json(path("run/summary.json"))["ranks"][0];
  const double measured = rank["host_memory"];
  EXPECT_NEAR(rank["predicted_memory"].get<double>() / measured, 1, 0.1);
  EXPECT_NEAR(memory["peak"].get<double>() / measured, 1, 0.1) << memory;
  const double state = memory["parameters"].get<double>() + memory["optimizer"].get<double>() +
                       memory["gradients"].get<double>();
  EXPECT_NEAR(state / (16 * plan["parameters"].get<double>()), 1, 0.05) << "float32 and AdamW: 16 bytes each";
  EXPECT_GT(state, 0.2 * measured) << "there is something to predict";
}

// The first steps have short samples, whose activations are a third of those of the long ones that follow.
// The model has many layers: what libraries and allocators keep differs by 10 MB from run to run.
TEST_F(Plan, PredictsThePeakOfLongSamplesToCome) {
  std::string pairs;
  for (int i = 0; i < 176; ++i)
    pairs += R"({"document":")" + std::string(i < 160 ? 20 : 90, 'a') + R"(","summary":"b"})" + "\n";
  write_text(path("train.jsonl"), pairs);
  const Words sets{"run.reproducible=false",
                   "task.language.num_hidden_layers=8",
                   "task.language.num_attention_heads=4",
                   "task.language.hidden_size=256",
                   "task.language.max_position_embeddings=128",
                   "task.sequence.max_tokens=128",
                   "task.tokenizer.vocab_size=257",
                   "train.global_batch=16",
                   "train.micro_batch=16",
                   "train.max_steps=11",
                   "loader.shuffle=false",
                   "loader.group_by_length=false",
                   "evaluate.every=0",
                   "evaluate.at_end=false",
                   "checkpoint.every=0"};
  const json plan = planned(sets);
  call("run", sets).ended(0);
  const json rank = read_json(path("run/summary.json"))["ranks"][0];
  const double measured = rank["host_memory"], planned_peak = row(plan, "single")["memory"]["peak"];
  EXPECT_NEAR(rank["predicted_memory"].get<double>() / measured, 1, 0.1);
  EXPECT_NEAR(planned_peak / measured, 1, 0.1);
  EXPECT_GT(plan["measured"]["activations"].get<double>(), 0.15 * measured)
      << "there is something to predict";
}

TEST_F(Plan, AsksEveryStrategyAndLeavesNothing) {
  const json plan = planned({"--processes", "4"});
  auto left = before_;
  left.emplace_back("cache");
  std::ranges::sort(left);
  EXPECT_EQ(entries(folder()), left);
  const double bytes = 4 * plan["trainable_parameters"].get<double>();
  EXPECT_EQ(plan["steps"], 12);
  EXPECT_EQ(plan["samples"], 41);
  EXPECT_TRUE(row(plan, "ddp")["configured"].get<bool>());
  // G = W = 4 bytes, one micro-batch of each process, N = 4.
  const std::map<std::string, double> sent{
      {"single", 0}, {"ddp", 2}, {"sharded:1", 2}, {"sharded:2", 2}, {"sharded:3", 3}};
  for (const auto& [strategy, times] : sent)
    EXPECT_NEAR(row(plan, strategy)["bytes_sent"].get<double>(), times * bytes * 3 / 4, 1) << strategy;
  const auto of = [&](const char* strategy, const char* kind) {
    return row(plan, strategy)["memory"][kind].get<double>();
  };
  EXPECT_EQ(of("ddp", "parameters"), of("single", "parameters"));
  EXPECT_LT(of("sharded:1", "optimizer"), 0.7 * of("ddp", "optimizer")) << "a quarter, and padding";
  EXPECT_EQ(of("sharded:2", "activations"), of("single", "activations"));
  EXPECT_EQ(row(plan, "ddp")["largest_micro_batch"], 2) << "of a global batch of 8";

  const json elsewhere = planned({"--processes", "2", "--device", "h100"});
  EXPECT_EQ(elsewhere["precision"], "bf16");
  EXPECT_EQ(elsewhere["memory_limit"], uint64_t{80} << 30);
  EXPECT_GT(row(elsewhere, "ddp")["step_seconds"].get<double>(), 0);
}

TEST_F(Plan, HasFewerSamplesThanAStepTakes) {
  write_text(path("train.jsonl"), small_pairs(0, 5));
  const json plan = planned({"train.global_batch=64", "train.micro_batch=4"});
  EXPECT_EQ(plan["measured"]["micro_batch"], 4);
  EXPECT_TRUE(row(plan, "single")["configured"]);
}

TEST_F(Plan, SaysWhatAnAutomaticMicroBatchWouldBe) {
  const json plan = planned({"--processes", "2", "train.micro_batch=auto"});
  EXPECT_EQ(row(plan, "single")["micro_batch"], 8);
  EXPECT_EQ(row(plan, "ddp")["micro_batch"], 4);
  EXPECT_EQ(row(plan, "ddp")["accumulation_steps"], 1);
  EXPECT_THAT(call("compare", {"--processes", "1,2", "train.micro_batch=auto"}).ended(2).err,
              HasSubstr("write a number to compare with"));
}

TEST_F(Plan, WrongInputIsNamed) {
  const Result device = call("plan", {"--device", "H1000"}).ended(2);
  EXPECT_THAT(device.err, HasSubstr("--device H1000: there are no figures of such a device: use one of T4,"));
  call("plan", {"--processes", "0"}).ended(2);
  EXPECT_THAT(call("plan", {"--processes", "16"}).ended(2).err,
              HasSubstr("8 samples in micro-batches of 2 are 4 for 16 devices"));
}

TEST_F(Plan, FindLrDrawsTheCurveAndSuggestsARate) {
  const Result result = call("find-lr", {"--steps", "40", "--start", "1e-5", "--end", "1"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("suggestion: optimizer.lr = "));
  EXPECT_EQ(entries(path("run-find-lr")), (Words{"find-lr.html", "points.csv", "points.json"}));
  EXPECT_FALSE(fs::exists(path("run")));
  const json found = read_json(path("run-find-lr/points.json"));
  EXPECT_NEAR(found["points"][0]["loss"].get<double>(), std::log(300), 0.5) << "a fresh model knows nothing";
  EXPECT_GT(found["steepest"].get<double>(), 1e-5);
  EXPECT_LT(found["steepest"].get<double>(), 0.3);
  EXPECT_EQ(read_lines(path("run-find-lr/points.csv")).size(), found["points"].size() + 1);
  EXPECT_THAT(read_text(path("run-find-lr/find-lr.html")), HasSubstr("\"axis\":\"learning_rate\""));
  EXPECT_THAT(call("find-lr", {"--start", "1", "--end", "1e-3"}).ended(2).err,
              HasSubstr("so the end must be larger"));
  EXPECT_THAT(call("find-lr", {"--output", "train.toml/x"}).ended(2).err,
              HasSubstr("choose another --output"));
}

TEST_F(Plan, ASignalStopsFindLr) {
  Process running(pipeline_command({"find-lr", "train.toml", "--steps", "100000"}), folder());
  ASSERT_TRUE(eventually([&] { return fs::exists(path("run-find-lr")) && fs::exists(path("cache")); }));
  running.signal(SIGINT);
  EXPECT_EQ(running.wait().code, 75);
  EXPECT_TRUE(entries(path("run-find-lr")).empty());
}

}  // namespace
}  // namespace pipeline::tests
