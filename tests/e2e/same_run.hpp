// A job under a strategy, on a number of processes, over a backend; and what must come out the same.
#pragma once

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {

struct Arrangement {
  std::string strategy;  // "ddp", or "sharded2" for stage 2, "sharded2-1" for that in groups of one process
  int processes;
  std::string backend = "auto";

  std::string name() const {
    return strategy + "_" + std::to_string(processes) + (backend == "auto" ? "" : "_" + backend);
  }
  Words sets() const {
    const bool sharded = strategy.starts_with("sharded");
    Words sets{"strategy.plugin=" + (sharded ? "sharded" : strategy),
               "launch.processes=" + std::to_string(processes)};
    if (sharded) sets.push_back("strategy.zero_stage=" + strategy.substr(7, 1));
    if (sharded && strategy.size() > 9) sets.push_back("strategy.shard_group=\"" + strategy.substr(9) + "\"");
    if (backend != "auto") sets.push_back("backend.plugin=" + backend);
    return sets;
  }
};

// Of a job that ends with kShortTraining: the same bits under ddp and sharded, and after a kill.
inline void expect_the_same_run_everywhere(const Job& job) {
  job.call("run").ended(0);
  const auto single = job.curve("run");
  ASSERT_EQ(single.size(), 12u);
  for (const Arrangement& two : {Arrangement{"ddp", 2}, Arrangement{"sharded2", 2}}) {
    job.call("run", two.sets() + Words{"run.dir=" + two.name()}).ended(0);
    EXPECT_EQ(job.curve(two.name()), single) << two.name();
  }
  Process process = job.start("run", {"run.dir=killed"});
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(job.path("killed/checkpoints/step-00000005")); }));
  process.signal(SIGKILL);
  process.wait();
  job.call("run", {"run.dir=killed"}).ended(0);
  EXPECT_EQ(job.curve("killed"), single);
}

template <class JobT>
class SameRunOf : public testing::Test, public JobT {
 protected:
  // Trains in the folder `arrangement.name()`, or goes on in `dir`.
  void train(const Arrangement& arrangement, const Words& more = {}, std::string dir = {}) {
    if (dir.empty()) dir = arrangement.name();
    const Result run = this->call("run", more + arrangement.sets() + Words{"run.dir=" + dir});
    ASSERT_EQ(run.code, 0) << arrangement.name() << "\n" << run.out << run.err;
  }
  // The parameters as another tool reads them.
  std::string exported(const std::string& dir) {
    this->call("export", {"run.dir=" + dir, "--checkpoint", "last"}).ended(0);
    return read_text(this->path(dir + "/export/model.safetensors"));
  }
  // Loss and gradient norm of every step. AdamW hides a gradient that is wrong by a factor; the norm does
  // not.
  std::vector<double> losses(const std::string& dir) const {
    std::vector<double> values;
    for (const auto& json : read_json_lines(this->path(dir + "/metrics.jsonl"))) {
      values.insert(values.end(), {json["loss"], json["grad_norm"]});
    }
    return values;
  }
  void expect_close(const std::string& dir, const std::vector<double>& expected, double tolerance) const {
    const std::vector<double> seen = losses(dir);
    ASSERT_EQ(seen.size(), expected.size()) << dir;
    for (size_t i = 0; i < seen.size(); ++i)
      EXPECT_NEAR(seen[i] / expected[i], 1, tolerance)
          << dir << (i % 2 == 0 ? " loss" : " norm") << " of step " << i / 2 + 1;
  }
};

}  // namespace pipeline::tests
