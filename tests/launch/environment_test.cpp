// Every launcher's environment, as it was seen with the real thing, and what is wrong with it.
#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/rank_env.hpp"

namespace pipeline::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

World rank_of(const Variables& variables, const LaunchRequest& request = {}) {
  const auto place = find_place(request, variables);
  const World* world = std::get_if<World>(&place);
  EXPECT_NE(world, nullptr) << "a supervisor, not a rank";
  return world != nullptr ? *world : World{};
}

HostPlan plan_of(const Variables& variables, const LaunchRequest& request = {}) {
  const auto place = find_place(request, variables);
  const HostPlan* plan = std::get_if<HostPlan>(&place);
  EXPECT_NE(plan, nullptr) << "a rank, not a supervisor";
  return plan != nullptr ? *plan : HostPlan{};
}

std::string problem_with(const Variables& variables, const LaunchRequest& request = {}) {
  try {
    find_place(request, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_CONFIG);
    return error.what();
  }
  return "none";
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

const Variables kSrun = {{"SLURM_JOB_ID", "17"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "4"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_NODELIST", "n[1-3]"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};

const Variables kSbatch = {{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"},
                           {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "5"},
                           {"SLURM_NODEID", "0"},  {"SLURM_JOB_NODELIST", "n[1-3]"},
                           {"SLURM_NNODES", "3"},  {"SLURM_TASKS_PER_NODE", "2(x2),1"}};

const Variables kMpirun = {
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "2"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"PMIX_NAMESPACE", "907411457"},
    {"OMPI_MCA_orte_hnp_uri", "907411456.0;tcp://127.0.0.1,192.0.2.2:42363;tcp6://[fd00::2]:38475"}};

const Variables kMpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

const Variables kPod = {
    {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"}};

TEST(Environment, NoLauncher) {
  const World alone = rank_of({});
  EXPECT_EQ(alone.size, 1);
  EXPECT_EQ(alone.launcher, "");
  EXPECT_EQ(plan_of({}, {.processes = 3}).processes, 3);
  EXPECT_EQ(plan_of({}, {.cuda_devices = 2}).processes, 2);
  EXPECT_EQ(rank_of({}, {.processes = 1, .cuda_devices = 2}).size, 1);
  const HostPlan restarting = plan_of({}, {.max_restarts = 1});
  EXPECT_EQ(restarting.processes, 1);
  EXPECT_EQ(restarting.port, 0) << "a free one";
  EXPECT_EQ(plan_of({{"MASTER_PORT", "1234"}}, {.processes = 2}).port, 1234);
  EXPECT_NE(plan_of({}, {.processes = 2}).run_id, plan_of({}, {.processes = 2}).run_id);
}

TEST(Environment, ASecretGivenByHandIsTaken) {
  const Variables by_hand = {{"PIPELINE_RUN_SECRET", "by hand"}};
  EXPECT_EQ(rank_of(with(kSrun, by_hand)).secret, "by hand");
  EXPECT_EQ(plan_of(by_hand, {.processes = 2}).secret, "by hand");
  EXPECT_EQ(rank_of(kSrun).secret, "");
}

TEST(Environment, OurSupervisorIsBelievedBeforeAnybodyElse) {
  const World told{.rank = 2,
                   .size = 4,
                   .local_rank = 0,
                   .local_size = 2,
                   .launcher = "Slurm (srun)",
                   .address = "n1",
                   .port = 7,
                   .port_tries = 3,
                   .listen_socket = 5,
                   .run_id = "slurm 1.0",
                   .secret = "only the ranks know",
                   .attempt = 1};
  for (const Variables& outer : {Variables{}, kSrun, kTorchrun, kMpirun}) {
    const World world = rank_of(with(outer, supervised_variables(told)),
                                {.flags = {.nodes = 2, .node_rank = 1}, .processes = 2});
    EXPECT_EQ(world.rank, 2);
    EXPECT_EQ(world.size, 4);
    EXPECT_EQ(world.local_rank, 0);
    EXPECT_EQ(world.local_size, 2);
    EXPECT_EQ(world.launcher, "Slurm (srun)");
    EXPECT_EQ(world.address, "n1");
    EXPECT_EQ(world.port, 7);
    EXPECT_EQ(world.port_tries, 3);
    EXPECT_EQ(world.listen_socket, 5);
    EXPECT_EQ(world.run_id, "slurm 1.0");
    EXPECT_EQ(world.secret, "only the ranks know");
    EXPECT_EQ(world.attempt, 1u);
    EXPECT_TRUE(world.supervised);
  }
}

TEST(Environment, Torchrun) {
  const World world = rank_of(kTorchrun);
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.launcher, "torchrun");
  EXPECT_EQ(world.address, "node0");
  EXPECT_EQ(world.attempt, 2u);
  EXPECT_FALSE(world.supervised);
  EXPECT_EQ(rank_of(with(kSrun, kTorchrun)).launcher, "torchrun") << "inside srun";
  EXPECT_EQ(rank_of(with(kMpirun, kTorchrun)).launcher, "torchrun") << "one torchrun a host, by mpirun";
}

// The agent's store has MASTER_PORT. All ranks work out the same other ports, whatever they count as their
// restarts.
TEST(Environment, TorchrunsStoreKeepsItsPort) {
  const World first = rank_of(kTorchrun);
  const World second =
      rank_of(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"TORCHELASTIC_RESTART_COUNT", "0"}}));
  EXPECT_EQ(first.port, second.port);
  EXPECT_EQ(first.run_id, second.run_id);
  EXPECT_GT(first.port_tries, 1);
  EXPECT_GT(first.port, 1024);
  EXPECT_LT(first.port + first.port_tries, 29500);
  EXPECT_NE(first.run_id, rank_of(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "other"}})).run_id);
  const World own = rank_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
  EXPECT_EQ(own.port, 29500);
  EXPECT_EQ(own.port_tries, 1);
}

TEST(Environment, TheOlderTorchLaunchPassesTheLocalRankAsAnArgument) {
  EXPECT_EQ(rank_of(kTorchrun, {.flags = {.local_rank = 1}}).local_rank, 1);
  EXPECT_THAT(problem_with(kTorchrun, {.flags = {.local_rank = 0}}),
              AllOf(HasSubstr("--local-rank 0"), HasSubstr("torchrun says local rank 1")));
  EXPECT_THAT(problem_with({}, {.flags = {.local_rank = 0}}), HasSubstr("RANK, WORLD_SIZE"));
}

TEST(Environment, IncompleteVariablesAreNamed) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    EXPECT_THAT(problem_with(without(kTorchrun, name)), HasSubstr(std::string(name) + " is not set"));
  EXPECT_THAT(problem_with({{"RANK", "1"}}),
              AllOf(HasSubstr("WORLD_SIZE is not set"), HasSubstr("set are: RANK=1")));
  EXPECT_THAT(problem_with({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not set"));
  EXPECT_THAT(problem_with({{"LOCAL_RANK", "2"}}), HasSubstr("RANK is not set"));
  EXPECT_THAT(problem_with(without(kPod, "MASTER_ADDR")), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(problem_with(without(kPod, "MASTER_PORT")), HasSubstr("MASTER_PORT is not set"));
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NODELIST"})
    EXPECT_THAT(problem_with(without(kSrun, name)), HasSubstr(std::string(name) + " is not set"));
  EXPECT_THAT(problem_with(without(kMpirun, "OMPI_COMM_WORLD_SIZE")),
              HasSubstr("OMPI_COMM_WORLD_SIZE is not set"));
  EXPECT_THAT(problem_with(without(kMpich, "PMI_SIZE")), HasSubstr("PMI_SIZE is not set"));
}

TEST(Environment, WhatIsNoNumberIsQuoted) {
  EXPECT_EQ(problem_with(with(kPod, {{"RANK", "one"}})),
            "RANK=one in the environment: must be a whole number of at least 0");
  EXPECT_THAT(problem_with(with(kPod, {{"RANK", "-1"}})), HasSubstr("RANK=-1"));
  EXPECT_THAT(problem_with(with(kPod, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(problem_with(with(kPod, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT=70000"));
  EXPECT_THAT(problem_with(with(kPod, {{"RANK", "99999999999"}})), HasSubstr("RANK=99999999999"));
}

TEST(Environment, ContradictionsNameBoth) {
  EXPECT_EQ(problem_with(with(kPod, {{"RANK", "2"}})),
            "RANK=2 in the environment: must be less than WORLD_SIZE=2");
  EXPECT_THAT(problem_with(with(kSrun, {{"RANK", "1"}})),
              AllOf(HasSubstr("SLURM_PROCID=4"), HasSubstr("RANK=1")));
  EXPECT_THAT(problem_with(with(kSrun, {{"WORLD_SIZE", "8"}})),
              AllOf(HasSubstr("SLURM_STEP_NUM_TASKS=5"), HasSubstr("WORLD_SIZE=8")));
  EXPECT_THAT(problem_with(with(kMpirun, {{"RANK", "0"}})),
              AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=1"), HasSubstr("RANK=0")));
  EXPECT_THAT(problem_with(with(kMpich, {{"LOCAL_RANK", "0"}})), HasSubstr("LOCAL_RANK=0"));
  EXPECT_THAT(problem_with(with(kSrun, {{"SLURM_NODEID", "3"}})),
              AllOf(HasSubstr("SLURM_NODEID=3"), HasSubstr("2(x2),1")));
  EXPECT_THAT(problem_with(with(kSrun, {{"SLURM_LOCALID", "2"}})), HasSubstr("local rank 2 of 2"));
  EXPECT_EQ(rank_of(with(kSrun, {{"RANK", "4"}, {"WORLD_SIZE", "5"}, {"LOCAL_RANK", "1"}})).launcher,
            "Slurm (srun)")
      << "variables that agree, as scripts set them";
  EXPECT_THAT(problem_with(kSrun, {.flags = {.nodes = 2, .node_rank = 1}}),
              AllOf(HasSubstr("--nodes 2 --node-rank 1"), HasSubstr("SLURM_PROCID=4")));
}

TEST(Environment, Slurm) {
  const World world = rank_of(kSrun);
  EXPECT_EQ(world.rank, 4);
  EXPECT_EQ(world.size, 5);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.launcher, "Slurm (srun)");
  EXPECT_EQ(world.address, "n1");
  EXPECT_GT(world.port_tries, 1);
  EXPECT_EQ(rank_of(with(kSrun, {{"MASTER_ADDR", "10.0.0.1"}})).address, "10.0.0.1");
  EXPECT_EQ(rank_of(with(kSrun, {{"MASTER_PORT", "4000"}})).port, 4000);
  EXPECT_EQ(rank_of(with(kSrun, {{"SLURM_RESTART_COUNT", "2"}})).attempt, 2u);
  EXPECT_NE(rank_of(kSrun).run_id, rank_of(with(kSrun, {{"SLURM_STEP_ID", "3"}})).run_id);
  EXPECT_THAT(problem_with(with(kSrun, {{"SLURM_PROCID", "0"}})), HasSubstr("MASTER_ADDR"))
      << "task 0 on the second node";
}

TEST(Environment, TheShellOfSbatchIsNoRank) {
  EXPECT_EQ(rank_of(kSbatch).size, 1);
  EXPECT_EQ(rank_of(kSbatch).launcher, "");
  EXPECT_EQ(plan_of(kSbatch, {.processes = 2}).processes, 2);
}

// A shell of a step is one of its tasks; variables of an earlier command stay. Nobody starts the others.
TEST(Environment, WhoMayBeAloneIsToldWhichVariableSaysOtherwise) {
  EXPECT_THAT(rank_of(kSrun).if_alone,
              AllOf(HasSubstr("SLURM_STEP_NUM_TASKS=5"), HasSubstr("unset SLURM_STEP_ID")));
  EXPECT_THAT(
      rank_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}).if_alone,
      AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("unset RANK, WORLD_SIZE")));
  for (const Variables& started : {kTorchrun, kMpirun}) EXPECT_EQ(rank_of(started).if_alone, "");
}

TEST(Environment, TheNumberOfThreadsIsNotFromIt) {
  ::setenv("OMP_NUM_THREADS", "4,2", 1);
  EXPECT_THAT(variables_in_force(), testing::Contains("OMP_NUM_THREADS=4,2 (not used: launch.threads is)"));
  ::unsetenv("OMP_NUM_THREADS");
}

TEST(Environment, OneTaskOfSlurmStandsForItsHost) {
  const Variables one = {{"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "0"},         {"SLURM_STEP_NUM_TASKS", "1"},
                         {"SLURM_LOCALID", "0"},        {"SLURM_NODEID", "0"},
                         {"SLURM_STEP_NODELIST", "n1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}};
  EXPECT_EQ(rank_of(one).size, 1);
  EXPECT_EQ(plan_of(one, {.processes = 3}).processes, 3);
  EXPECT_EQ(plan_of(one, {.cuda_devices = 4}).processes, 4);
  EXPECT_EQ(rank_of(with(one, kPod)).launcher, "PyTorchJob") << "a shell in which somebody sets RANK";
  const Variables second_of_two = with(one, {{"SLURM_PROCID", "1"},
                                             {"SLURM_STEP_NUM_TASKS", "2"},
                                             {"SLURM_NODEID", "1"},
                                             {"SLURM_STEP_NODELIST", "n[1-2]"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  const HostPlan plan = plan_of(second_of_two, {.cuda_devices = 4});
  EXPECT_EQ(plan.nodes, 2);
  EXPECT_EQ(plan.node_rank, 1);
  EXPECT_EQ(plan.processes, 4);
  EXPECT_EQ(plan.address, "n1");
  EXPECT_EQ(plan.launcher, "Slurm (srun)");
  EXPECT_EQ(rank_of(second_of_two, {.cuda_devices = 1}).rank, 1);
}

TEST(Environment, OpenMpi) {
  const World world = rank_of(kMpirun);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.launcher, "OpenMPI (mpirun)");
  EXPECT_EQ(world.address, "127.0.0.1");
  EXPECT_EQ(rank_of(with(kSrun, kMpirun)).launcher, "OpenMPI (mpirun)") << "its daemons are started by srun";
  EXPECT_EQ(rank_of(kMpirun, {.cuda_devices = 8}).size, 2) << "mpirun -np counts";
}

TEST(Environment, OpenMpiOnSeveralHostsTellsWhereMpirunIs) {
  const Variables two = with(kMpirun, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(rank_of(two).address, "127.0.0.1")
      << "the address on a network of this host's, of the two that mpirun has";
  EXPECT_EQ(rank_of(with(two, {{"MASTER_ADDR", "n7"}})).address, "n7");
  EXPECT_THAT(problem_with(without(two, "OMPI_MCA_orte_hnp_uri")), HasSubstr("mpirun -x MASTER_ADDR="));
  const Variables elsewhere = {{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://192.0.2.77:42363"},
                               {"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  EXPECT_THAT(problem_with(with(two, elsewhere)),
              AllOf(HasSubstr("rank 0 does not run on mpirun's own host (192.0.2.77)"),
                    HasSubstr("-x MASTER_ADDR=")));
}

TEST(Environment, Mpich) {
  const World world = rank_of(kMpich);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.launcher, "MPI (PMI)");
  EXPECT_EQ(world.address, "127.0.0.1");
  EXPECT_THAT(problem_with(with(kMpich, {{"PMI_SIZE", "4"}})), HasSubstr("MASTER_ADDR"));
  const Variables by_srun = with(kSrun, {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}});
  EXPECT_EQ(rank_of(by_srun).launcher, "Slurm (srun)") << "srun --mpi=pmi2";
}

TEST(Environment, PyTorchJob) {
  const World world = rank_of(kPod);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.local_size, 1);
  EXPECT_EQ(world.launcher, "PyTorchJob");
  EXPECT_EQ(world.address, "job-master-0");
  EXPECT_EQ(world.port, 23456);
}

TEST(Environment, APodStandsForAHost) {
  const HostPlan by_devices = plan_of(kPod, {.cuda_devices = 4});
  EXPECT_EQ(by_devices.nodes, 2);
  EXPECT_EQ(by_devices.node_rank, 1);
  EXPECT_EQ(by_devices.processes, 4);
  EXPECT_EQ(by_devices.port, 23456);
  const Variables four_each = with(kPod, {{"WORLD_SIZE", "8"}, {"PET_NPROC_PER_NODE", "4"}});
  const HostPlan by_nproc = plan_of(four_each, {.cuda_devices = 8});
  EXPECT_EQ(by_nproc.nodes, 2) << "WORLD_SIZE counts processes";
  EXPECT_EQ(by_nproc.processes, 4);
  EXPECT_EQ(plan_of(with(kPod, {{"PET_NPROC_PER_NODE", "auto"}}), {.cuda_devices = 2}).processes, 2);
  EXPECT_THAT(problem_with(four_each, {.processes = 2}),
              AllOf(HasSubstr("launch.processes = 2"), HasSubstr("says 4")));
  EXPECT_THAT(problem_with(with(four_each, {{"WORLD_SIZE", "6"}})), HasSubstr("PET_NPROC_PER_NODE=4"));
}

TEST(Environment, AScriptThatSetsAllItself) {
  const Variables all = with(kPod, {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
  EXPECT_EQ(rank_of(all, {.cuda_devices = 4}).launcher, "RANK and LOCAL_RANK");
  EXPECT_THAT(problem_with(without(all, "LOCAL_WORLD_SIZE")), HasSubstr("LOCAL_WORLD_SIZE is not set"));
}

TEST(Environment, SeveralHostsByHand) {
  const LaunchRequest request{.flags = {.nodes = 2, .node_rank = 1, .master_address = "10.0.0.1"},
                              .processes = 3};
  const HostPlan plan = plan_of({}, request);
  EXPECT_EQ(plan.nodes, 2);
  EXPECT_EQ(plan.node_rank, 1);
  EXPECT_EQ(plan.processes, 3);
  EXPECT_EQ(plan.address, "10.0.0.1");
  EXPECT_EQ(plan.port, 29500);
  LaunchRequest other = request;
  other.flags.node_rank = 0;
  EXPECT_EQ(plan_of({}, other).run_id, plan.run_id);
  other.flags.master_port = 1234;
  EXPECT_EQ(plan_of({{"MASTER_PORT", "99"}}, other).port, 1234);
  EXPECT_EQ(plan_of(kSbatch, {.flags = {.nodes = 2, .node_rank = 0, .master_address = "n1"}}).nodes, 2);

  EXPECT_THAT(problem_with({}, {.flags = {.nodes = 2, .master_address = "x"}}),
              HasSubstr("needs --node-rank"));
  EXPECT_THAT(problem_with({}, {.flags = {.nodes = 2, .node_rank = 0}}), HasSubstr("needs --master-address"));
  EXPECT_EQ(plan_of({{"MASTER_ADDR", "n9"}}, {.flags = {.nodes = 2, .node_rank = 0}}).address, "n9");
  EXPECT_THAT(problem_with({}, {.flags = {.nodes = 2, .node_rank = 2, .master_address = "x"}}),
              HasSubstr("--node-rank 2: must be from 0 to 1"));
  EXPECT_THAT(problem_with({}, {.flags = {.node_rank = 0}}),
              HasSubstr("--node-rank 0 is for a run on several hosts, and --nodes is not given"));
  EXPECT_THAT(problem_with({}, {.flags = {.master_address = "x"}}), HasSubstr("--master-address x is for"));
  EXPECT_THAT(problem_with({}, {.flags = {.nodes = 1, .node_rank = 1}}), HasSubstr("--node-rank 1: must be"));
  EXPECT_THAT(problem_with({}, {.flags = {.nodes = 0}}), HasSubstr("--nodes 0: must be at least 1"));
}

TEST(Environment, WhatALauncherOverridesIsSaid) {
  EXPECT_EQ(rank_of(kTorchrun).note, "");
  EXPECT_EQ(rank_of(kTorchrun, {.processes = 2}).note, "");
  EXPECT_THAT(rank_of(kTorchrun, {.processes = 4, .max_restarts = 3}).note,
              AllOf(HasSubstr("launch.processes = 4 is not used: torchrun has started 2"),
                    HasSubstr("launch.max_restarts = 3 is not used")));
}

}  // namespace
}  // namespace pipeline::launch
