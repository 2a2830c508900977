// A real Slurm, slurmctld and a slurmd for each of two hosts, with addresses of their own.
#include <csignal>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "tests/distributed/hosts.hpp"
#include "tests/distributed/runs.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string missing() {
  for (const char* program : {"slurmctld", "slurmd", "munged", "srun"})
    if (!has_program(std::string("/usr/sbin/") + program) && !has_program(program))
      return std::string(program) + " is not installed (packages slurm-wlm, munge)";
  return Hosts::missing();
}

// One port at a time in all of these hosts is ours: they have their own addresses.
std::string config_of(const fs::path& folder, const Hosts& hosts) {
  const std::string in = folder.string();
  return "ClusterName=test\nSlurmctldHost=n1(" + hosts.address(1) +
         ")\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n"
         "AuthInfo=socket=" +
         in + "/munge.socket\nStateSaveLocation=" + in + "/state\nSlurmctldPidFile=" + in +
         "/slurmctld.pid\n"
         "SlurmdPidFile=" +
         in + "/slurmd-%n.pid\nSlurmdSpoolDir=" + in + "/spool-%n\nSlurmctldLogFile=" + in +
         "/slurmctld.log\n"
         "SlurmdLogFile=" +
         in +
         "/slurmd-%n.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n"
         "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerType=sched/"
         "builtin\nJobAcctGatherType=jobacct_gather/none\n"
         "ReturnToService=2\nSlurmdParameters=config_overrides\nSchedulerParameters=sched_interval="
         "1\nKillWait=30\n"
         "NodeName=n1 NodeAddr=" +
         hosts.address(1) + " CPUs=4 State=UNKNOWN\nNodeName=n2 NodeAddr=" + hosts.address(2) +
         " CPUs=4 State=UNKNOWN\nPartitionName=all Nodes=ALL Default=YES State=UP\n";
}

class Slurm : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = missing(); !reason.empty()) GTEST_SKIP() << reason;
    ::setenv("PATH", (std::string(std::getenv("PATH")) + ":/usr/sbin:/sbin").c_str(), 1);
    hosts_ = std::make_unique<Hosts>(2);
    folder_ = runs_.path("slurm");
    fs::create_directories(folder_ / "state");
    fs::permissions(runs_.path("."),
                    fs::perms(0755));  // munge's clients must reach its socket, its key nobody
    write_text(folder_ / "munge.key", std::string(1024, 'k'));
    fs::permissions(folder_ / "munge.key", fs::perms(0400));
    write_text(folder_ / "slurm.conf", config_of(folder_, *hosts_));
    ::setenv("SLURM_CONF", (folder_ / "slurm.conf").c_str(), 1);
    const std::string in = folder_.string();
    munged_ = start({"munged", "--foreground", "--force", "--key-file=" + in + "/munge.key",
                     "--socket=" + in + "/munge.socket", "--log-file=" + in + "/munge.log",
                     "--pid-file=" + in + "/munge.pid", "--seed-file=" + in + "/munge.seed"});
    ASSERT_TRUE(eventually([&] { return fs::exists(folder_ / "munge.socket"); }));
    controller_ = start(hosts_->on(1, {"slurmctld", "-D"}));
    for (int host = 1; host <= 2; ++host)
      daemons_.push_back(start(hosts_->on(host, {"slurmd", "-D", "-N", hosts_->name(host)})));
    ASSERT_TRUE(eventually([&] {
      return on_first({"sinfo", "-h", "-o", "%D %T"}).out == "2 idle\n";
    })) << read_text(folder_ / "slurmctld.log");
  }

  void TearDown() override {
    if (controller_) on_first({"scancel", "--full", "--signal=KILL", "--user=root"});
  }

  std::unique_ptr<Process> start(const Words& command) const {
    return std::make_unique<Process>(Words{"/usr/bin/env"} + command, runs_.path("."));
  }
  Result on_first(const Words& command) const { return start(hosts_->on(1, command))->wait(); }

  void expect_same(const Words& options, const std::string& name, const std::string& processes) {
    const Result result =
        on_first(Words{"srun"} + options + Words{PIPELINE_EXECUTABLE} + runs_.short_run(name));
    ASSERT_EQ(result.code, 0) << result.out << result.err;
    EXPECT_EQ(runs_.curve(name), runs_.expected());
    EXPECT_THAT(runs_.log(name),
                HasSubstr("processes  " + processes +
                          ", started by Slurm (srun); this is rank 0, local rank 0 on host n1"));
  }

  Runs runs_;
  fs::path folder_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<Process> munged_, controller_;
  std::vector<std::unique_ptr<Process>> daemons_;
};

// Address and port follow from what srun says: nothing is set by hand.
TEST_F(Slurm, StartsRanksOnTwoHosts) {
  expect_same({"-N2", "-n4", "--ntasks-per-node=2"}, "a", "4");
  expect_same({"-N1", "-n2"}, "b", "2");
}

TEST_F(Slurm, OneTaskOnEachHostStartsTheRanksItself) {
  on_first(Words{"srun", "-N2", "-n2", PIPELINE_EXECUTABLE} + runs_.short_run("a") +
           Words{"--set", "launch.processes=2"})
      .ended(0);
  EXPECT_EQ(runs_.curve("a"), runs_.expected());
  EXPECT_THAT(runs_.log("a"), HasSubstr("processes  4, started by Slurm (srun); "));
}

TEST_F(Slurm, AKilledRankEndsTheStep) {
  auto step = start(hosts_->on(
      1, Words{"srun", "-N2", "-n4", "--ntasks-per-node=2", PIPELINE_EXECUTABLE} + runs_.endless_run("a")));
  ASSERT_TRUE(eventually([&] { return runs_.has_checkpoint("a") && runs_.ranks().size() == 4; }));
  ::kill(runs_.ranks().at(3), SIGKILL);
  EXPECT_LT(seconds_until([&] { return runs_.ranks().empty(); }), 15);
  const Result result = step->wait();
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("rank 3 (host n2"));
}

// The script of sbatch is no rank, though it has SLURM_PROCID; at the end of its time the job saves, and goes
// back into the queue. Slurm signals every process of the step, and our supervisor passes the signal on as
// well: that is one signal.
TEST_F(Slurm, AJobThatIsToldToSaveGoesBackIntoTheQueue) {
  ::setenv("PIPELINE_PLUGIN_PATH", "", 1);
  const Result submitted =
      on_first(Words{"sbatch", "--parsable", "--output=" + runs_.path("job.log").string(), "--nodes=2",
                     "--ntasks-per-node=1", "--cpus-per-task=2", script("slurm.sbatch"),
                     runs_.path("run.toml"), "--set", "run.dir=" + runs_.path("a").string(), "--set",
                     "train.max_steps=100000", "--set", "launch.processes=2"});
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const std::string job = submitted.out.substr(0, submitted.out.find_first_of(";\n"));
  ASSERT_TRUE(eventually([&] { return runs_.has_checkpoint("a") && runs_.ranks().size() == 4; }))
      << read_text(runs_.path("job.log"));
  on_first({"scancel", "--signal=USR1", job});
  EXPECT_TRUE(eventually([&] {
    return read_text(runs_.path("job.log")).find("goes back into the queue") != std::string::npos;
  })) << read_text(runs_.path("job.log"));
  EXPECT_THAT(runs_.log("a"), HasSubstr("SIGUSR1: saving at step"));
  EXPECT_THAT(on_first({"squeue", "-h", "-o", "%i %T", "-j", job}).out,
              AllOf(HasSubstr(job), testing::ContainsRegex("PENDING|COMPLETING|RUNNING|REQUEU")));
  on_first({"scancel", job});
}

TEST_F(Slurm, InAnAllocationWithoutSrunItIsAlone) {
  on_first(Words{"salloc", "-N2", "-n4", PIPELINE_EXECUTABLE} + runs_.short_run("a") +
           Words{"--set", "backend.plugin=auto"})
      .ended(0);
  EXPECT_EQ(runs_.curve("a"), runs_.expected());
  EXPECT_EQ(runs_.log("a").find("Slurm (srun)"), std::string::npos);
}

}  // namespace
}  // namespace pipeline::tests
