// observe.profile: traces of real runs, as Perfetto would read them.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// The parts of a trace that belong to one rank.
struct RankTrace {
  std::vector<json> events;

  // The first event that is called so, or begins so; null: none.
  json find(const std::string& category, const std::string& name) const {
    for (const json& event : events)
      if (event.value("cat", "") == category && event["name"].get<std::string>().starts_with(name))
        return event;
    return nullptr;
  }
  double begin(const std::string& step) const { return find("step", step)["ts"]; }
  double end(const std::string& step) const { return begin(step) + find("step", step)["dur"].get<double>(); }
};

std::map<std::string, RankTrace> ranks_of(const fs::path& file) {
  std::map<int64_t, std::string> names;
  std::map<std::string, RankTrace> ranks;
  const json trace = read_json(file);
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  for (const json& event : trace["traceEvents"]) ranks[names.at(event["pid"])].events.push_back(event);
  return ranks;
}

std::vector<std::string> rows(const std::string& out) {
  std::vector<std::string> rows;
  const std::regex row(R"( +[\d.]+ +[\d.]+% +[\d.]+  \S.*)");
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, row)) rows.push_back(line);
  return rows;
}

class ProfileTest : public testing::Test {
 protected:
  ProfileTest() {
    write_text(job_.path("train.toml"), linear_run() + R"([train]
global_batch = 8
micro_batch = 2
max_steps = 8
[evaluate]
at_end = false
)");
    write_text(job_.path("sine.toml"), R"([run]
device = "cpu"
[task]
plugin = "template"
[launch]
processes = 2
threads = 1
[train]
global_batch = 16
micro_batch = 4
max_steps = 20
[evaluate]
at_end = false
)");
  }
  Result run(const std::string& file, const std::string& folder, const std::string& steps,
             const Words& more = {}) const {
    const Words run{"run", file, "run.dir=" + folder, "observe.profile=\"" + steps + "\""};
    return pipeline(run + more, job_.folder());
  }

  Job job_;
};

TEST_F(ProfileTest, HasBothRanksOnOneClockWithOperationsPhasesAndCollectives) {
  const Result result = run("sine.toml", "run", "3-5").ended(0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("profile    steps 3 to 5: run/profile/trace.json"));
  EXPECT_EQ(rows(result.out).size(), 10u) << result.out;
  std::smatch overlap;
  ASSERT_TRUE(std::regex_search(result.out, overlap,
                                std::regex(R"(communication [\d.]+ ms a step, (\d+)% of it hidden)")))
      << result.out;
  EXPECT_LE(std::stoi(overlap[1]), 100);

  const auto ranks = ranks_of(job_.path("run/profile/trace.json"));
  ASSERT_EQ(ranks.size(), 2u);
  for (const char* name : {"rank 0", "rank 1"}) {
    const RankTrace& rank = ranks.at(name);
    for (const char* phase :
         {"waiting for ranks", "forward and backward 1 of 2", "forward and backward 2 of 2", "optimizer"})
      EXPECT_FALSE(rank.find("phase", phase).is_null()) << name << " " << phase;
    for (const char* part : {"forward", "backward"})
      EXPECT_FALSE(rank.find("user_annotation", part).is_null()) << name << " " << part;
    for (const char* step : {"step 2", "step 6"})
      EXPECT_TRUE(rank.find("step", step).is_null()) << name << step;
    std::set<std::string> collectives;
    for (const json& event : rank.events) {
      if (event.value("cat", "") != "collective") continue;
      EXPECT_GT(event["args"]["bytes"], 0) << event;
      collectives.insert(std::regex_replace(event["name"].get<std::string>(), std::regex("#\\d+"), "#"));
    }
    EXPECT_THAT(collectives, testing::Contains(testing::StartsWith("all_reduce #, bucket 0, "))) << name;
    EXPECT_THAT(collectives, testing::Contains("all_reduce #, loss, 8 B")) << name;
    // Kineto's events are on our clock, and of several threads: training, the loader.
    const json product = rank.find("cpu_op", "aten::addmm");
    ASSERT_FALSE(product.is_null()) << name;
    EXPECT_GT(product["ts"].get<double>(), rank.begin("step 3") - 100);
    EXPECT_LT(product["ts"].get<double>(), rank.end("step 5"));
    std::set<int64_t> threads;
    for (const json& event : rank.events)
      if (event.value("cat", "") == "cpu_op") threads.insert(event["tid"].get<int64_t>());
    EXPECT_GE(threads.size(), 2u) << name;
  }
  // All ranks wait for each other in a step, so the same one is under way on both at some time.
  for (const char* step : {"step 3", "step 4", "step 5"})
    EXPECT_LT(std::max(ranks.at("rank 0").begin(step), ranks.at("rank 1").begin(step)),
              std::min(ranks.at("rank 0").end(step), ranks.at("rank 1").end(step)))
        << step;
  // The ranks' own files are there, too, and nothing else.
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(job_.path("run/profile")))
    files.insert(entry.path().filename());
  EXPECT_EQ(files, (std::set<std::string>{"rank0.json", "rank1.json", "trace.json"}));
  EXPECT_EQ(ranks_of(job_.path("run/profile/rank1.json")).count("rank 1"), 1u);

  // The bits do not change.
  run("sine.toml", "without", "").ended(0);
  EXPECT_EQ(job_.curve("run"), job_.curve("without"));
  EXPECT_FALSE(fs::exists(job_.path("without/profile")));
}

// What sharded gathers in one step is waited for in the next, also in the first and the last one recorded.
TEST_F(ProfileTest, CollectivesSayWhatTheyAreForAndBeginWithTheRecording) {
  run("sine.toml", "run", "3-5", {"strategy.plugin=sharded", "strategy.zero_stage=2"}).ended(0);
  const auto ranks = ranks_of(job_.path("run/profile/trace.json"));
  for (const char* name : {"rank 0", "rank 1"}) {
    std::map<std::string, size_t> collectives;
    for (const json& event : ranks.at(name).events) {
      EXPECT_GE(event.value("ts", 0.0), 0) << name << event;
      EXPECT_NE(event.value("cat", ""), "in flight") << "the backend says when they ran: " << event;
      if (event.value("cat", "") == "collective")
        ++collectives[std::regex_replace(event["name"].get<std::string>(), std::regex(" #\\d+"), "")];
    }
    EXPECT_EQ(collectives.size(), 3u) << name;
    EXPECT_GE(collectives["all_gather, weights 0, 65.5 kB"], 2u) << name;
    EXPECT_EQ(collectives["all_gather, figures, 48 B"], 3u) << name;
    EXPECT_EQ(collectives["all_to_all, gradients 0, 32.8 kB"], 6u)
        << name << ": in each of two micro-batches";
  }
}

TEST_F(ProfileTest, AnEvaluationEndsTheRecordingAndIsInNoFigure) {
  const Result result = run("sine.toml", "run", "3-6", {"evaluate.every=4"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("profile    steps 3 to 4: "));
  EXPECT_THAT(result.out, HasSubstr("profile    ends with step 4, not 6: an evaluation followed"));
  const auto ranks = ranks_of(job_.path("run/profile/trace.json"));
  for (const char* name : {"rank 0", "rank 1"})
    EXPECT_TRUE(ranks.at(name).find("phase", "evaluation").is_null()) << name;
}

TEST_F(ProfileTest, PluginsWithoutAProfilerHaveTheirPhasesRecorded) {
  const Result result = run("train.toml", "run", "3-5").ended(0);
  EXPECT_THAT(result.out, HasSubstr("profile    without operations: neither task linear_regression nor "
                                    "strategy plain_sgd records them"));
  EXPECT_THAT(result.out, HasSubstr("  forward and backward"));
  EXPECT_THAT(result.out, Not(HasSubstr("communication")));
  EXPECT_FALSE(ranks_of(job_.path("run/profile/trace.json")).at("rank 0").find("step", "step 5").is_null());
}

TEST_F(ProfileTest, WrongStepsAreNamed) {
  for (const auto& [value, problem] : std::map<std::string, std::string>{
           {"10", "expected the first and the last step to record, as in \"10-14\""},
           {"3-x", "expected the first and the last step"},
           {"0-4", "steps are counted from 1"},
           {"5-3", "the last step is before the first"},
           {"1-1000", "1000 steps make a trace that is too large to open: record 100 at most"}}) {
    write_text(job_.path("wrong.toml"), "extends = \"train.toml\"\n[observe]\nprofile = \"" + value + "\"\n");
    const Result result = pipeline({"check", "wrong.toml"}, job_.folder());
    EXPECT_EQ(result.code, 2) << value;
    EXPECT_THAT(result.err, HasSubstr("wrong.toml:3: observe.profile = \"" + value + "\": " + problem));
  }
}

// Nothing that goes wrong with a profile ends a run.
TEST_F(ProfileTest, AFolderThatCannotBeWrittenIsAWarning) {
  run("train.toml", "run", "", {"train.max_steps=2"}).ended(0);
  write_text(job_.path("run/profile"), "in the way");
  const Result result = run("train.toml", "run", "3-5").ended(0);
  EXPECT_THAT(result.out, HasSubstr("warning: profile of rank 0: "));
  EXPECT_THAT(result.out, HasSubstr("step 8/8"));
}

TEST_F(ProfileTest, ARunThatEndsOrBeginsAmongTheStepsHasThoseThatItMade) {
  const Result ended = run("train.toml", "run", "7-20").ended(0);
  EXPECT_THAT(ended.out, HasSubstr("profile    steps 7 to 8:"));
  EXPECT_THAT(ended.out, HasSubstr("profile    ends with step 8, not 20: "));
  EXPECT_THAT(run("train.toml", "run", "7-20", {"train.max_steps=30"}).ended(0).out,
              HasSubstr("profile    steps 9 to 20:"));
  const Result early = run("train.toml", "short", "900000-900001",
                           {"train.max_steps=unset", "train.max_seconds=0.1", "schedule.kind=constant"})
                           .ended(0);
  EXPECT_THAT(early.out, HasSubstr("profile = \"900000-900001\" has no effect: the run ends after step "));
  EXPECT_THAT(run("train.toml", "run", "7-20", {"train.max_steps=32"}).ended(0).out,
              HasSubstr("this run continues with step 31: nothing is recorded"));
}

TEST_F(ProfileTest, ASignalLeavesWhatWasRecorded) {
  Process process(pipeline_command({"run", "sine.toml", "launch.processes=1", "run.dir=run",
                                    "train.global_batch=1024", "train.micro_batch=256", "task.width=16384",
                                    "train.max_steps=1000", "observe.profile=\"2-100\""}),
                  job_.folder());
  ASSERT_TRUE(eventually([&] {
    return fs::exists(job_.path("run/metrics.jsonl")) && !read_lines(job_.path("run/metrics.jsonl")).empty();
  }));
  process.signal(SIGTERM);
  const Result result = process.wait().ended(75);
  EXPECT_THAT(result.out, HasSubstr("profile    steps 2 to"));
  EXPECT_THAT(result.out, Not(HasSubstr("profile    steps 2 to 100")));
  EXPECT_EQ(ranks_of(job_.path("run/profile/trace.json")).count("rank 0"), 1u);
}

}  // namespace
}  // namespace pipeline::tests
