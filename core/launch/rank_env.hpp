// What one launcher's variables say about this process, before flags and options have their say. One
// recogniser for each launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/world.hpp"
#include "core/launch/variables.hpp"

namespace pipeline::launch {

struct RankEnv {
  World world;
  std::string rank_name, size_name;  // the variables that rank and size come from, for errors
  // The launcher starts one process for each host, which may start the host's ranks itself: always where an
  // option asks for it, and by the number of CUDA devices where the launcher was not told how many processes
  // there shall be.
  bool one_per_host = false;
  bool counts_devices = false;
  int32_t processes_per_host = 0;  // that the launcher wants it to start; 0: it does not say
};

// Each: nullopt where its launcher did not start this process. Incomplete variables are an Error
// (PL_ERROR_CONFIG).
std::optional<RankEnv> supervisor_env(const Variables& variables);  // our own
std::optional<RankEnv> torchrun_env(const Variables& variables);
std::optional<RankEnv> openmpi_env(const Variables& variables);
std::optional<RankEnv> pmi_env(const Variables& variables);  // MPICH, Intel MPI
std::optional<RankEnv> slurm_env(const Variables& variables);
std::optional<RankEnv> torch_variables_env(const Variables& variables);  // by a PyTorchJob, a script

// The env that counts where launchers are nested: the innermost. Variables that contradict each other
// without being a nesting that occurs are an Error (PL_ERROR_CONFIG).
std::optional<RankEnv> find_rank_env(const Variables& variables);

// A port for rank 0 that all processes of run `run_id` work out alike, where none is agreed on: World::port
// and port_tries.
void choose_port(World& world);

// What our supervisor tells its children besides the variables that everybody uses.
inline constexpr const char* kSupervisor = "PIPELINE_SUPERVISOR";
// The run's secret: by our supervisor, by hand, or by a script around the launcher. Never logged.
inline constexpr const char* kRunSecret = "PIPELINE_RUN_SECRET";
Variables supervised_variables(const World& world);

// "n[1-3,07],login" -> n1 n2 n3 n07 login. Throws Error (PL_ERROR_CONFIG) for anything that is no such list.
std::vector<std::string> expand_nodes(const std::string& list);

// "2(x3),1" -> 2 2 2 1: tasks for each node.
std::vector<int32_t> expand_tasks(const std::string& list);

}  // namespace pipeline::launch
