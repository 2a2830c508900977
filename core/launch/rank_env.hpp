// What a launcher's variables say about this process, before flags and options are considered. One recogniser
// per launcher.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/world.hpp"

namespace pipeline::launch {

// The environment as a value. Errors of the functions that read it name the variable and its value.
using Variables = std::map<std::string, std::string>;

// This process's environment.
Variables own_variables();

// The variable's value; nullopt: not set, or empty.
std::optional<std::string> text(const Variables& variables, const std::string& name);

// Returns an integer of at least `least`; throws Error (PL_ERROR_CONFIG) for anything else.
std::optional<int32_t> number(const Variables& variables, const std::string& name, int32_t least = 0);
std::optional<uint16_t> port_number(const Variables& variables, const std::string& name);

// Returns number() of a variable that `because` requires: "torchrun sets RANK, but WORLD_SIZE is not set".
int32_t required_number(const Variables& variables, const std::string& name, int32_t least,
                        const std::string& because);

// "NAME=value" for each of `names` that is set, in one line, for errors.
std::string quote(const Variables& variables, const std::vector<std::string>& names);

struct RankEnv {
  World world;
  std::string rank_name, size_name;  // the variables that rank and size come from, for errors
  // The launcher starts one process per host, which may start the host's ranks itself: always if an option
  // asks for it, otherwise one per CUDA device if the launcher was not told how many processes to start.
  bool one_per_host = false;
  bool counts_devices = false;
  int32_t processes_per_host = 0;  // that the launcher wants it to start; 0: not given
};

// Each returns nullopt if its launcher did not start this process, and throws Error (PL_ERROR_CONFIG) if
// variables are incomplete.
std::optional<RankEnv> supervisor_env(const Variables& variables);  // our own
std::optional<RankEnv> torchrun_env(const Variables& variables);
std::optional<RankEnv> openmpi_env(const Variables& variables);
std::optional<RankEnv> pmi_env(const Variables& variables);  // MPICH, Intel MPI
std::optional<RankEnv> slurm_env(const Variables& variables);
std::optional<RankEnv> torch_variables_env(const Variables& variables);  // by a PyTorchJob, a script

// Returns the innermost environment if launchers are nested. Throws Error (PL_ERROR_CONFIG) if variables
// contradict each other and are not a known nesting.
std::optional<RankEnv> find_rank_env(const Variables& variables);

// The hint for World::if_alone, where the variables may be a shell's, or left over from another command.
std::string hint_if_alone(const Variables& variables, const World& world);

// Chooses a port for rank 0 if none was agreed on: sets World::port and port_tries. All processes of run
// `run_id` compute the same one.
void choose_port(World& world);
// Sets where rank 0 listens: by MASTER_ADDR and MASTER_PORT where they are given.
void set_address(World& world, const Variables& variables,
                 const std::function<std::string()>& on_several_hosts);

// What our supervisor passes to its children besides the common variables.
inline constexpr const char* kSupervisor = "PIPELINE_SUPERVISOR";
// The run's secret: set by our supervisor, by hand, or by a script around the launcher. Never logged.
inline constexpr const char* kRunSecret = "PIPELINE_RUN_SECRET";
Variables supervised_variables(const World& world);

// "n[1-3,07],login" -> n1 n2 n3 n07 login. Throws Error (PL_ERROR_CONFIG) for anything but such a list.
std::vector<std::string> expand_nodes(const std::string& list);

// "2(x3),1" -> 2 2 2 1: tasks per node.
std::vector<int32_t> expand_tasks(const std::string& list);

}  // namespace pipeline::launch
