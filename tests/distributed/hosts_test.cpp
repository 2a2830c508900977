// Several hosts with addresses of their own: by hand and under the launchers; a host that dies, a port that
// is blocked.
#include <csignal>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "tests/distributed/hosts.hpp"
#include "tests/distributed/runs.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = Hosts::missing(); !missing.empty()) GTEST_SKIP() << missing;
    hosts_ = std::make_unique<Hosts>(2);
  }

  // The command that starts one host's part by hand, with two processes.
  Words by_hand(int host, const Words& arguments) const {
    return hosts_->on(host, Words{PIPELINE_EXECUTABLE} + arguments +
                                Words{"--nodes", "2", "--node-rank", std::to_string(host - 1),
                                      "--master-address", "n1", "--set", "launch.processes=2"});
  }
  std::unique_ptr<Process> start(const Words& command) const {
    return std::make_unique<Process>(command, runs_.path("."));
  }

  void expect_same(const std::string& name, const std::string& launcher, Process& first, Process& second) {
    const Result result = first.wait(), other = second.wait();
    ASSERT_EQ(result.code, 0) << result.out << result.err << other.err;
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_EQ(runs_.curve(name), runs_.expected());
    EXPECT_THAT(runs_.log(name), HasSubstr("processes  4, started by " + launcher +
                                           "; this is rank 0, local rank 0 on host n1"));
  }

  // What mpirun uses in the place of ssh.
  std::string remote_shell(const Hosts& hosts, int count) const {
    const auto file = runs_.path("remote-shell");
    std::string text = "#!/bin/sh\nhost=$1\nshift\n";
    for (int host = 1; host <= count; ++host) {
      text += "[ $host = " + hosts.name(host) + " ] && exec";
      for (const std::string& word : hosts.on(host, {"sh", "-c"})) text += " '" + word + "'";
      text += " \"$*\"\n";
    }
    write_text(file, text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }

  void wait_for_four(const std::string& name) {
    ASSERT_TRUE(eventually([&] { return runs_.has_checkpoint(name) && runs_.ranks().size() == 4; }));
  }

  Runs runs_;
  std::unique_ptr<Hosts> hosts_;
};

TEST_F(TwoHosts, ByHand) {
  const auto second = start(by_hand(2, runs_.short_run("a"))),
             first = start(by_hand(1, runs_.short_run("a")));
  expect_same("a", "pipeline", *first, *second);
}

TEST_F(TwoHosts, ARankThatIsKilledEndsBoth) {
  const auto first = start(by_hand(1, runs_.endless_run("a"))),
             second = start(by_hand(2, runs_.endless_run("a")));
  wait_for_four("a");
  ::kill(runs_.ranks().at(3), SIGKILL);
  EXPECT_LT(seconds_until([&] { return runs_.ranks().empty(); }), 15);
  const Result here = first->wait().ended(1), there = second->wait();
  EXPECT_EQ(there.code, 1);
  EXPECT_THAT(there.err, AllOf(HasSubstr("error: rank 3 on host n2 "), HasSubstr("was killed by SIGKILL")));
  EXPECT_THAT(here.err, HasSubstr("rank 3 (host n2")) << "host 1 says where to look";
}

// A copy of the weights on each host, in two shards: the bits are the same, and a rank's end is known in all
// groups.
TEST_F(TwoHosts, AreGroupsOfShards) {
  const Words groups = {"--set", "strategy.plugin=sharded", "--set", "strategy.shard_group=host"};
  {
    const auto second = start(by_hand(2, runs_.short_run("a") + groups)),
               first = start(by_hand(1, runs_.short_run("a") + groups));
    expect_same("a", "pipeline", *first, *second);
  }
  const auto first = start(by_hand(1, runs_.endless_run("b") + groups)),
             second = start(by_hand(2, runs_.endless_run("b") + groups));
  wait_for_four("b");
  ::kill(runs_.ranks().at(3), SIGKILL);
  EXPECT_LT(seconds_until([&] { return runs_.ranks().empty(); }), 15);
  EXPECT_THAT(second->wait().err, HasSubstr("was killed by SIGKILL"));
  EXPECT_EQ(first->wait().code, 1);
}

TEST_F(TwoHosts, BothStartAgain) {
  const Words more = {"--set", "launch.max_restarts=1", "--set", "train.max_steps=600"};
  const auto first = start(by_hand(1, runs_.short_run("a") + more)),
             second = start(by_hand(2, runs_.short_run("a") + more));
  wait_for_four("a");
  ::kill(runs_.ranks().at(3), SIGKILL);
  const Result here = first->wait(), there = second->wait();
  EXPECT_EQ(here.code, 0) << here.out << here.err << there.err;
  EXPECT_EQ(there.code, 0);
  EXPECT_THAT(here.err, HasSubstr("restart 1 of 1"));
  EXPECT_THAT(there.err, HasSubstr("restart 1 of 1"));
  EXPECT_EQ(runs_.curve("a").substr(0, runs_.expected().size()), runs_.expected());
}

// Only rank 0 finds that the run has diverged; no host starts again what would end so again.
TEST_F(TwoHosts, NeitherStartsAgainWhatDiverges) {
  const Words more = {"--set", "launch.max_restarts=1", "--set", "optimizer.kind=sgd",
                      "--set", "optimizer.lr=1e30",     "--set", "train.max_nonfinite_steps=2"};
  const auto first = start(by_hand(1, runs_.short_run("a") + more)),
             second = start(by_hand(2, runs_.short_run("a") + more));
  const Result here = first->wait(), there = second->wait();
  for (const Result& host : {here, there}) {
    EXPECT_EQ(host.code, 2) << host.out << host.err;
    EXPECT_THAT(host.err, HasSubstr("the run has diverged"));
    EXPECT_THAT(host.err, Not(HasSubstr("restart 1 of 1")));
  }
}

TEST_F(TwoHosts, ASignalToOneSavesOnBoth) {
  const auto first = start(by_hand(1, runs_.endless_run("a"))),
             second = start(by_hand(2, runs_.endless_run("a")));
  wait_for_four("a");
  second->signal(SIGTERM);
  EXPECT_EQ(first->wait().code, 75);
  EXPECT_THAT(second->wait().ended(75).err, HasSubstr("stopped by a signal: run the same command again"));
}

TEST_F(TwoHosts, AHostThatVanishesEndsTheOther) {
  const auto first = start(by_hand(1, runs_.endless_run("a"))),
             second = start(by_hand(2, runs_.endless_run("a")));
  wait_for_four("a");
  hosts_->unplug(2);
  EXPECT_LT(seconds_until([&] { return runs_.ranks().empty(); }), 30);
  const Result here = first->wait().ended(1);
  EXPECT_THAT(here.err, HasSubstr("(host n2")) << here.err;
  EXPECT_EQ(second->wait().code, 1);
}

TEST_F(TwoHosts, APortThatAFirewallBlocksEndsWithinTheTimeout) {
  if (!has_program("iptables")) GTEST_SKIP() << "the package iptables is not installed";
  hosts_->block_port(1, 29500);
  const Words more = {"--set", "launch.rendezvous_seconds=5"};
  const auto first = start(by_hand(1, runs_.short_run("a") + more)),
             second = start(by_hand(2, runs_.short_run("a") + more));
  const Result here = first->wait().ended(1), there = second->wait();
  EXPECT_EQ(there.code, 1);
  EXPECT_THAT(here.err, testing::ContainsRegex("rank(s)? 2")) << "who is missing";
  EXPECT_THAT(there.err, AllOf(HasSubstr("n1:29500"), HasSubstr("firewall")));
  EXPECT_THAT(there.err, testing::StartsWith("waiting for rank 0 at n1:29500: ")) << "before it gives up";
}

TEST_F(TwoHosts, Torchrun) {
  if (torchrun().empty())
    GTEST_SKIP() << "PIPELINE_PYTHON names no python with torch: scripts/test --all does";
  ::setenv("TORCHRUN", torchrun().c_str(), 1);
  ::setenv("PROCESSES", "2", 1);
  ::setenv("NODES", "2", 1);
  ::setenv("HEAD", "n1:29400", 1);
  const Words command = by_script("torchrun", runs_.short_run("a"));
  const auto first = start(hosts_->on(1, command)), second = start(hosts_->on(2, command));
  const Result result = first->wait(), other = second->wait();
  ASSERT_EQ(result.code, 0) << result.out << result.err << other.err;
  EXPECT_EQ(runs_.curve("a"), runs_.expected());
  EXPECT_THAT(runs_.log("a"), HasSubstr("processes  4, started by torchrun; "));
}

// The elastic agent of the host that is left starts its two processes again, alone: from the checkpoint of
// four.
TEST_F(TwoHosts, TorchrunGoesOnWithFewerProcesses) {
  if (torchrun().empty())
    GTEST_SKIP() << "PIPELINE_PYTHON names no python with torch: scripts/test --all does";
  const Words command =
      Words{torchrun(),
            "--no-python",
            "--nnodes=1:2",
            "--nproc-per-node=2",
            "--max-restarts=3",
            "--rdzv-backend=c10d",
            "--rdzv-endpoint=n1:29400",
            "--rdzv-id=test",
            "--rdzv-conf=last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3",
            PIPELINE_EXECUTABLE} +
      runs_.short_run("a") + Words{"--set", "train.max_steps=600"};
  const auto first = start(hosts_->on(1, command)), second = start(hosts_->on(2, command));
  wait_for_four("a");
  second->signal(SIGKILL);
  const auto ranks = runs_.ranks();
  for (const int rank : {2, 3}) ::kill(ranks.at(rank), SIGKILL);
  first->wait().ended(0);
  EXPECT_THAT(runs_.log("a"), AllOf(HasSubstr("processes  4, started by torchrun; "),
                                    HasSubstr("processes  2, started by torchrun; ")));
  EXPECT_EQ(runs_.curve("a").substr(0, runs_.expected().size()), runs_.expected());
}

// MASTER_ADDR is not set: every process learns from mpirun where it runs.
TEST_F(TwoHosts, OpenMpi) {
  if (!has_program("mpirun.openmpi")) GTEST_SKIP() << "the package openmpi-bin is not installed";
  ::setenv("MPIRUN", "mpirun.openmpi", 1);
  ::setenv("MPIRUN_FLAGS",
           ("--allow-run-as-root --oversubscribe --mca plm_rsh_agent " + remote_shell(*hosts_, 2)).c_str(),
           1);
  ::setenv("PROCESSES", "4", 1);
  ::setenv("HOSTS", "n1:2,n2:2", 1);
  start(hosts_->on(1, by_script("mpirun", runs_.short_run("a"))))->wait().ended(0);
  EXPECT_EQ(runs_.curve("a"), runs_.expected());
  EXPECT_THAT(
      runs_.log("a"),
      HasSubstr("processes  4, started by OpenMPI (mpirun); this is rank 0, local rank 0 on host n1"));
}

TEST_F(TwoHosts, OpenMpiWithoutRankZeroOnItsOwnHostAsksForTheAddress) {
  if (!has_program("mpirun.openmpi")) GTEST_SKIP() << "the package openmpi-bin is not installed";
  hosts_.reset();
  const Hosts hosts(3);
  const Result result = start(hosts.on(1, Words{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
                                                "--mca", "plm_rsh_agent", remote_shell(hosts, 3), "--host",
                                                "n2:1,n3:1", "-np", "2", PIPELINE_EXECUTABLE} +
                                              runs_.short_run("a")))
                            ->wait()
                            .ended(2);
  EXPECT_THAT(result.err, HasSubstr("mpirun -x MASTER_ADDR="));
}

}  // namespace
}  // namespace pipeline::tests
