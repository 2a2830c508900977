// Every launcher on one host: recognised, the same losses as with one process to the bit, and an end of all
// when a rank is killed.
#include <csignal>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "tests/distributed/runs.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class Launchers : public testing::Test {
 protected:
  // The run's losses are those of one process, and its log says how it was started.
  void expect_same(const Words& command, const std::string& name, const std::string& launcher) {
    Process(command, runs_.path(".")).wait().ended(0);
    EXPECT_EQ(runs_.curve(name), runs_.expected());
    EXPECT_THAT(runs_.log(name), HasSubstr("started by " + launcher + ";"));
  }

  // Returns the launcher's result after rank 1 was killed.
  Result kill_rank_1(const Words& command, const std::string& name) {
    Process process(command, runs_.path("."));
    EXPECT_TRUE(eventually([&] { return runs_.has_checkpoint(name) && runs_.ranks().contains(1); }));
    ::kill(runs_.ranks().at(1), SIGKILL);
    EXPECT_LT(seconds_until([&] { return runs_.ranks().empty(); }), 15);
    return process.wait();
  }

  Runs runs_;
};

// What is said of a rank that vanished, where no supervisor of ours could see how.
const char* const kLost = "error: rank 1 .* was lost";

TEST_F(Launchers, OurOwn) {
  const Words two = {"--set", "launch.processes=2"};
  expect_same(Words{PIPELINE_EXECUTABLE} + runs_.short_run("a") + two, "a", "pipeline");
  const Result killed = kill_rank_1(Words{PIPELINE_EXECUTABLE} + runs_.endless_run("b") + two, "b").ended(1);
  EXPECT_THAT(killed.err, testing::StartsWith("error: rank 1 on host "));
  EXPECT_THAT(killed.err, AllOf(HasSubstr("was killed by SIGKILL"), HasSubstr("logs/rank-1.log:\n  | ")));
}

TEST_F(Launchers, OurOwnStartsAgainWhereItStopped) {
  Process process(Words{PIPELINE_EXECUTABLE} + runs_.short_run("a") +
                      Words{"--set", "launch.processes=2", "--set", "launch.max_restarts=1", "--set",
                            "train.max_steps=600", "--set", "checkpoint.keep=200"},
                  runs_.path("."));
  ASSERT_TRUE(eventually([&] { return runs_.has_checkpoint("a"); }));
  ::kill(runs_.ranks().at(0), SIGKILL);
  EXPECT_THAT(process.wait().ended(0).err, HasSubstr("restart 1 of 1"));
  const std::string curve = runs_.curve("a");
  EXPECT_EQ(std::count(curve.begin(), curve.end(), '\n'), 600) << "every step once";
  EXPECT_EQ(curve.substr(0, runs_.expected().size()), runs_.expected());
}

TEST_F(Launchers, SeveralHostsByHandAreProcessesHere) {
  ::setenv("NODES", "2", 1);
  ::setenv("PROCESSES", "2", 1);
  ::setenv("MASTER_PORT", "29611", 1);
  expect_same(by_script("by-hand", runs_.short_run("a")), "a", "pipeline");
}

TEST_F(Launchers, Torchrun) {
  if (torchrun().empty())
    GTEST_SKIP() << "PIPELINE_PYTHON names no python with torch: scripts/test --all does";
  ::setenv("TORCHRUN", torchrun().c_str(), 1);
  ::setenv("PROCESSES", "2", 1);
  expect_same(by_script("torchrun", runs_.short_run("a")), "a", "torchrun");
  // torchrun's store has a port that is known before, so that ours must be another.
  expect_same(
      Words{torchrun(), "--no-python", "--nproc-per-node=2", "--master-port=29612", PIPELINE_EXECUTABLE} +
          runs_.short_run("b"),
      "b", "torchrun");
  const Result killed = kill_rank_1(by_script("torchrun", runs_.endless_run("c")), "c");
  EXPECT_NE(killed.code, 0);
  EXPECT_THAT(killed.err, ContainsRegex(kLost));
}

TEST_F(Launchers, TorchrunStartsAgainWhereItStopped) {
  if (torchrun().empty())
    GTEST_SKIP() << "PIPELINE_PYTHON names no python with torch: scripts/test --all does";
  Process process(Words{torchrun(), "--no-python", "--standalone", "--nproc-per-node=2", "--max-restarts=1",
                        PIPELINE_EXECUTABLE} +
                      runs_.short_run("a") + Words{"--set", "train.max_steps=600", "--fresh"},
                  runs_.path("."));
  ASSERT_TRUE(eventually([&] { return runs_.has_checkpoint("a"); }));
  ::kill(runs_.ranks().at(0), SIGKILL);
  process.wait().ended(0);
  EXPECT_EQ(runs_.curve("a").substr(0, runs_.expected().size()), runs_.expected());
  EXPECT_THAT(runs_.log("a"), testing::ContainsRegex("continued from .*step-")) << "in spite of --fresh";
  EXPECT_FALSE(std::filesystem::exists(runs_.path("a.1")));
}

TEST_F(Launchers, TheOlderTorchLaunch) {
  if (torchrun().empty())
    GTEST_SKIP() << "PIPELINE_PYTHON names no python with torch: scripts/test --all does";
  expect_same(Words{python(), "-m", "torch.distributed.launch", "--nproc-per-node=2", "--master-port=29613",
                    script("torch_launch.py")} +
                  runs_.short_run("a"),
              "a", "torchrun");
}

TEST_F(Launchers, OpenMpi) {
  if (!has_program("mpirun.openmpi")) GTEST_SKIP() << "the package openmpi-bin is not installed";
  ::setenv("MPIRUN", "mpirun.openmpi", 1);
  ::setenv("MPIRUN_FLAGS", "--allow-run-as-root --oversubscribe", 1);
  ::setenv("PROCESSES", "4", 1);
  expect_same(by_script("mpirun", runs_.short_run("a")), "a", "OpenMPI (mpirun)");
  EXPECT_NE(kill_rank_1(by_script("mpirun", runs_.endless_run("b")), "b").code, 0);
}

TEST_F(Launchers, Mpich) {
  if (!has_program("mpiexec.hydra")) GTEST_SKIP() << "the package mpich is not installed";
  expect_same(Words{"/usr/bin/env", "mpiexec.hydra", "-n", "2", PIPELINE_EXECUTABLE} + runs_.short_run("a"),
              "a", "MPI (PMI)");
}

TEST_F(Launchers, APodOfKubernetes) {
  const Words pod = {"/usr/bin/env", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=29614"};
  const Words command =
      Words{PIPELINE_EXECUTABLE} + runs_.short_run("a") + Words{"--set", "launch.processes=2"};
  Process worker(pod + Words{"RANK=1"} + command, runs_.path("."));
  expect_same(pod + Words{"RANK=0"} + command, "a", "PyTorchJob");
  EXPECT_EQ(worker.wait().code, 0);
  EXPECT_THAT(runs_.log("a"), HasSubstr("processes  4, "));
}

TEST_F(Launchers, VariablesThatContradictEachOtherEndTheCommand) {
  const Result result =
      Process(Words{"/usr/bin/env", "RANK=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2",
                    "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2", PIPELINE_EXECUTABLE} +
                  runs_.short_run("a"),
              runs_.path("."))
          .wait();
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=0"), HasSubstr("RANK=1 is in the environment")));
}

}  // namespace
}  // namespace pipeline::tests
