#include "core/launch/rank_env.hpp"

#include <fmt/format.h>

#include "core/base/hash.hpp"

namespace pipeline::launch {
namespace {

// Below the ports that systems give to outgoing connections (Linux: from 32768), above those of well-known
// services.
constexpr uint32_t kFirstPort = 20000, kPorts = 8000;
constexpr uint16_t kTries = 16;

void require_in_range(const RankEnv& env) {
  const World& world = env.world;
  if (world.rank >= world.size)
    fail_config(fmt::format("{}={} in the environment: must be less than {}={}", env.rank_name, world.rank,
                            env.size_name, world.size));
  if (world.local_rank >= world.local_size)
    fail_config(
        fmt::format("{}: local rank {} of {} processes on this host: the environment contradicts itself",
                    world.launcher, world.local_rank, world.local_size));
  if (world.local_size > world.size)
    fail_config(fmt::format(
        "{}: {} processes on this host, but only {}={} altogether: the environment contradicts itself",
        world.launcher, world.local_size, env.size_name, world.size));
}

// RANK and its like, set beside a launcher's own variables, as by a script around the command.
void require_same(const Variables& variables, const RankEnv& env) {
  const auto compare = [&](const char* name, const std::string& other, int32_t value) {
    const std::optional<int32_t> said = number(variables, name);
    if (said && *said != value)
      fail_config(
          fmt::format("{} says {}={}, but {}={} is in the environment, too: unset {} or make them agree",
                      env.world.launcher, other, value, name, *said, name));
  };
  compare("RANK", env.rank_name, env.world.rank);
  compare("WORLD_SIZE", env.size_name, env.world.size);
  compare("LOCAL_RANK", "local rank", env.world.local_rank);
  compare("LOCAL_WORLD_SIZE", "processes on this host", env.world.local_size);
}

// srun --mpi=pmi2 sets PMI's variables itself; otherwise MPI's launcher was started inside a step of Slurm's.
bool pmi_is_by_srun(const Variables& variables) {
  return text(variables, "SLURM_STEP_ID") && text(variables, "PMI_RANK") == text(variables, "SLURM_PROCID") &&
         text(variables, "PMI_SIZE") == text(variables, "SLURM_STEP_NUM_TASKS");
}

}  // namespace

void choose_port(World& world) {
  world.port = static_cast<uint16_t>(kFirstPort + fnv1a(world.run_id) % kPorts);
  world.port_tries = kTries;
}

std::optional<RankEnv> find_rank_env(const Variables& variables) {
  for (const auto recognise : {supervisor_env, torchrun_env})
    if (std::optional<RankEnv> env = recognise(variables)) {
      require_in_range(*env);
      return env;
    }

  std::optional<RankEnv> env = openmpi_env(variables);
  if (!env && !pmi_is_by_srun(variables)) env = pmi_env(variables);
  if (!env) env = slurm_env(variables);
  // A step of one task is where a shell runs: what is set by hand in it counts.
  const bool only_a_shell = env && env->world.size == 1 && text(variables, "RANK");
  if (!env || only_a_shell)
    env = torch_variables_env(variables);
  else
    require_same(variables, *env);
  if (env) require_in_range(*env);
  return env;
}

}  // namespace pipeline::launch
