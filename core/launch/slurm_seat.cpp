#include <fmt/format.h>

#include "core/launch/seat.hpp"
#include "core/launch/slurm_lists.hpp"

namespace pipeline::launch {
namespace {

const std::string kBecause = "srun sets it";

int32_t tasks_on_this_node(const Variables& variables, int32_t tasks) {
  const std::optional<std::string> list = text(variables, "SLURM_STEP_TASKS_PER_NODE");
  if (!list && tasks == 1) return 1;
  const std::vector<int32_t> all = expand_tasks(list.value_or(""));
  const int32_t node = required_number(variables, "SLURM_NODEID", 0, kBecause);
  if (static_cast<size_t>(node) >= all.size())
    fail_config(fmt::format(
        "SLURM_NODEID={} and SLURM_STEP_TASKS_PER_NODE={} in the environment contradict each other", node,
        *list));
  return all[static_cast<size_t>(node)];
}

// Task 0 is on the step's first node, unless the tasks were placed by hand; rank 0 can see that.
std::string first_node(const Variables& variables, int32_t rank) {
  const std::optional<std::string> list = text(variables, "SLURM_STEP_NODELIST");
  if (!list)
    fail_config(fmt::format("SLURM_STEP_NODELIST is not set in the environment, and {}; or set MASTER_ADDR",
                            kBecause));
  if (const auto node = number(variables, "SLURM_NODEID"); rank == 0 && node.value_or(0) != 0)
    fail_config(fmt::format(
        "task 0 runs on node {} of SLURM_STEP_NODELIST={}, not on the first one: set MASTER_ADDR to its host",
        *node, *list));
  return expand_nodes(*list).front();
}

}  // namespace

// The shell of sbatch and salloc has SLURM_PROCID=0, too, but belongs to no step: it is not a rank.
std::optional<Seat> slurm_seat(const Variables& variables) {
  if (!text(variables, "SLURM_STEP_ID") || !text(variables, "SLURM_PROCID")) return std::nullopt;
  Seat seat{.rank_name = "SLURM_PROCID",
            .size_name = "SLURM_STEP_NUM_TASKS",
            .one_per_host = true,
            .counts_devices = true};
  World& world = seat.world;
  world.launcher = "Slurm (srun)";
  world.rank = required_number(variables, "SLURM_PROCID", 0, kBecause);
  world.size = required_number(variables, "SLURM_STEP_NUM_TASKS", 1, kBecause);
  world.local_rank = required_number(variables, "SLURM_LOCALID", 0, kBecause);
  world.local_size = tasks_on_this_node(variables, world.size);
  world.attempt = static_cast<uint32_t>(number(variables, "SLURM_RESTART_COUNT").value_or(0));
  world.run_id = fmt::format("slurm {}.{} {}", text(variables, "SLURM_JOB_ID").value_or(""),
                             *text(variables, "SLURM_STEP_ID"), world.attempt);
  const std::optional<std::string> given = text(variables, "MASTER_ADDR");
  world.address = given                            ? *given
                  : world.local_size == world.size ? "127.0.0.1"
                                                   : first_node(variables, world.rank);
  if (const auto port = port_number(variables, "MASTER_PORT"))
    world.port = *port;
  else
    choose_port(world);
  return seat;
}

}  // namespace pipeline::launch
