#include "core/launch/rank_env.hpp"

#include <charconv>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/fail.hpp"
#include "core/base/hash.hpp"
#include "core/launch/launch.hpp"

namespace pipeline::launch {
namespace {

// Ports below those that systems give to outgoing connections (Linux: from 32768), and above those of
// well-known services.
constexpr uint32_t kFirstPort = 20000, kPorts = 8000;
constexpr uint16_t kTries = 16;

void require_in_range(const RankEnv& env) {
  const World& world = env.world;
  if (world.rank >= world.size)
    fail(PL_ERROR_CONFIG, "{}={} in the environment: must be less than {}={}", env.rank_name, world.rank,
         env.size_name, world.size);
  if (world.local_rank >= world.local_size)
    fail(PL_ERROR_CONFIG,
         "{}: local rank {} of {} processes on this host: the environment contradicts itself", world.launcher,
         world.local_rank, world.local_size);
  if (world.local_size > world.size)
    fail(PL_ERROR_CONFIG,
         "{}: {} processes on this host, but only {}={} altogether: the environment contradicts itself",
         world.launcher, world.local_size, env.size_name, world.size);
}

// Throws where RANK and its like, set by a script around the command, contradict a launcher's variables.
void require_same(const Variables& variables, const RankEnv& env) {
  const auto compare = [&](const char* name, const std::string& other, int32_t value) {
    const std::optional<int32_t> said = number(variables, name);
    if (said && *said != value)
      fail(PL_ERROR_CONFIG,
           "{} says {}={}, but {}={} is in the environment, too: unset {} or make them agree",
           env.world.launcher, other, value, name, *said, name);
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

// The variables that the program itself reads, and those that its libraries read and users ask about. Never
// by prefix: some SLURM_ variables are secrets.
constexpr std::string_view kListed =
    " CUBLAS_WORKSPACE_CONFIG CUDA_DEVICE_ORDER CUDA_VISIBLE_DEVICES GLOO_SOCKET_IFNAME GOMP_SPINCOUNT "
    "GROUP_RANK GROUP_WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT MKL_NUM_THREADS "
    "MPI_LOCALNRANKS MPI_LOCALRANKID NO_COLOR OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE "
    "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_MCA_orte_hnp_uri OMPI_MCA_orte_num_nodes OMP_NUM_THREADS "
    "OMP_WAIT_POLICY PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE PIPELINE_PLUGIN_PATH PIPELINE_SUPERVISOR "
    "PMIX_NAMESPACE PMI_RANK PMI_SIZE PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF RANK SLURM_JOB_ID "
    "SLURM_LOCALID SLURM_NODEID SLURM_PROCID SLURM_RESTART_COUNT SLURM_STEP_ID SLURM_STEP_NODELIST "
    "SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE TORCHELASTIC_RESTART_COUNT TORCHELASTIC_RUN_ID "
    "TORCHELASTIC_USE_AGENT_STORE WORLD_SIZE ";

bool is_listed(const std::string& name) {
  return kListed.find(" " + name + " ") != kListed.npos || name.starts_with("NCCL_") ||
         name.starts_with("TORCH_NCCL_");
}

template <class Integer>
std::optional<Integer> whole_number(const Variables& variables, const std::string& name, Integer least) {
  const std::optional<std::string> value = text(variables, name);
  if (!value) return std::nullopt;
  Integer number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size() || number < least)
    fail(PL_ERROR_CONFIG, "{}={} in the environment: must be a whole number of at least {}", name, *value,
         least);
  return number;
}

}  // namespace

void choose_port(World& world) {
  world.port = static_cast<uint16_t>(kFirstPort + fnv1a(world.run_id) % kPorts);
  world.port_tries = kTries;
}

void set_address(World& world, const Variables& variables,
                 const std::function<std::string()>& on_several_hosts) {
  const std::optional<std::string> given = text(variables, "MASTER_ADDR");
  world.address = given ? *given : world.local_size == world.size ? "127.0.0.1" : on_several_hosts();
  if (const auto port = port_number(variables, "MASTER_PORT"))
    world.port = *port;
  else
    choose_port(world);
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

std::string hint_if_alone(const Variables& variables, const World& world) {
  if (world.size == 1) return {};
  if (world.launcher == "Slurm (srun)")
    return fmt::format(
        "{} in the environment: a shell in a step of so many tasks (srun --pty bash) is one of them, and "
        "nobody starts the others: put srun before the command to start all, or unset SLURM_STEP_ID to train "
        "without them",
        quote(variables, {"SLURM_STEP_NUM_TASKS"}));
  if (world.supervised || (world.launcher != "PyTorchJob" && world.launcher != "RANK and LOCAL_RANK"))
    return {};
  return fmt::format(
      "{} in the environment: if no launcher starts so many processes, unset RANK, WORLD_SIZE, LOCAL_RANK, "
      "MASTER_ADDR and MASTER_PORT",
      quote(variables, {"WORLD_SIZE"}));
}

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const size_t equals = text.find('='); equals != std::string::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::optional<std::string> text(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> number(const Variables& variables, const std::string& name, int32_t least) {
  return whole_number<int32_t>(variables, name, least);
}

std::optional<uint16_t> port_number(const Variables& variables, const std::string& name) {
  return whole_number<uint16_t>(variables, name, 1);
}

int32_t required_number(const Variables& variables, const std::string& name, int32_t least,
                        const std::string& because) {
  if (const std::optional<int32_t> value = number(variables, name, least)) return *value;
  fail(PL_ERROR_CONFIG, "{} is not set in the environment, and {}", name, because);
}

std::string quote(const Variables& variables, const std::vector<std::string>& names) {
  std::string line;
  for (const std::string& name : names)
    if (const auto value = text(variables, name))
      line += fmt::format("{}{}={}", line.empty() ? "" : " ", name, *value);
  return line;
}

std::vector<std::string> variables_in_force() {
  constexpr const char* kNotUsed = " (not used: launch.threads is)";
  std::vector<std::string> lines;
  const Variables own = own_variables();
  // What our own supervisor has set is nobody's choice.
  const Variables set_by_us = own.contains(kSupervisor) ? supervised_variables({}) : Variables();
  for (const auto& [name, value] : own)
    if (is_listed(name) && !set_by_us.contains(name))
      lines.push_back(name + "=" + value + (name.ends_with("_NUM_THREADS") ? kNotUsed : ""));
  return lines;
}

}  // namespace pipeline::launch
