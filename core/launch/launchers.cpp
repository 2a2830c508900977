// The variables that PyTorch made common (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT), OpenMPI's mpirun, and the launchers that speak PMI (MPICH, Intel MPI). MPI itself is not
// used: only who is where.
#include <algorithm>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include "core/base/fail.hpp"
#include "core/launch/rank_env.hpp"

namespace pipeline::launch {
namespace {

const std::vector<std::string> kPlaces = {"RANK",        "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                          "MASTER_ADDR", "MASTER_PORT"};

// The place of a rank whose variables say everything, both local numbers included.
RankEnv full_seat(const Variables& variables, const std::string& launcher) {
  const std::string because = fmt::format(
      "{} needs all of RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (set are: "
      "{})",
      launcher, quote(variables, kPlaces));
  RankEnv env{.rank_name = "RANK", .size_name = "WORLD_SIZE"};
  World& world = env.world;
  world.launcher = launcher;
  world.rank = required_number(variables, "RANK", 0, because);
  world.size = required_number(variables, "WORLD_SIZE", 1, because);
  world.local_rank = required_number(variables, "LOCAL_RANK", 0, because);
  world.local_size = required_number(variables, "LOCAL_WORLD_SIZE", 1, because);
  world.address = text(variables, "MASTER_ADDR").value_or("");
  if (world.address.empty())
    fail(PL_ERROR_CONFIG, "MASTER_ADDR is not set in the environment, and {}", because);
  required_number(variables, "MASTER_PORT", 1, because);
  world.port = *port_number(variables, "MASTER_PORT");
  return env;
}

// "attempt=1;tries=1;socket=-1;run=...;launcher=...": the value after `key`.
std::string field(const std::string& packed, const std::string& key) {
  const std::string all = ";" + packed + ";";
  const size_t at = all.find(";" + key + "=");
  if (at == std::string::npos)
    fail(PL_ERROR_CONFIG, "{}={} in the environment: has no '{}'; it is not for setting by hand", kSupervisor,
         packed, key);
  const size_t begin = at + key.size() + 2;
  return all.substr(begin, all.find(';', begin) - begin);
}

int32_t number_field(const std::string& packed, const std::string& key) {
  return *number({{kSupervisor, field(packed, key)}}, kSupervisor, -1);
}

// IPv4 addresses in "907411456.0;tcp://192.0.2.2,10.0.0.1:42363;tcp6://[fd00::2]:38475": where mpirun runs.
std::vector<std::string> addresses_in(const std::string& uri) {
  static constexpr std::string_view kScheme = "tcp://";
  const size_t begin = uri.find(kScheme);
  if (begin == std::string::npos) return {};
  const std::string list =
      uri.substr(begin + kScheme.size(), uri.find(':', begin + kScheme.size()) - begin - kScheme.size());
  std::vector<std::string> addresses;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    addresses.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return addresses;
}

bool visit_interfaces(const auto& accept) {
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return false;
  bool found = false;
  for (const ifaddrs* i = interfaces; i != nullptr && !found; i = i->ifa_next)
    if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET && i->ifa_netmask != nullptr)
      found = accept(reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr,
                     reinterpret_cast<const sockaddr_in*>(i->ifa_netmask)->sin_addr.s_addr);
  ::freeifaddrs(interfaces);
  return found;
}

bool is_mine(const std::string& address) {
  return visit_interfaces([&](in_addr_t mine, in_addr_t) { return mine == ::inet_addr(address.c_str()); });
}

bool on_my_network(const std::string& address) {
  return visit_interfaces(
      [&](in_addr_t mine, in_addr_t mask) { return ((mine ^ ::inet_addr(address.c_str())) & mask) == 0; });
}

// mpirun tells every process where it runs itself, and rank 0 is there unless a host file says otherwise;
// rank 0 can see that.
std::string address_of_mpirun(const Variables& variables, int32_t rank) {
  static constexpr const char* kRemedy = "give it: mpirun -x MASTER_ADDR=<host of rank 0> ...";
  const std::vector<std::string> addresses =
      addresses_in(text(variables, "OMPI_MCA_orte_hnp_uri").value_or(""));
  if (addresses.empty())
    fail(PL_ERROR_CONFIG, "OpenMPI (mpirun) runs on several hosts, and MASTER_ADDR is not set: {}", kRemedy);
  if (rank == 0 && std::none_of(addresses.begin(), addresses.end(), is_mine))
    fail(PL_ERROR_CONFIG, "rank 0 does not run on mpirun's own host ({}), and MASTER_ADDR is not set: {}",
         addresses.front(), kRemedy);
  const auto near = std::find_if(addresses.begin(), addresses.end(), on_my_network);
  return near == addresses.end() ? addresses.front() : *near;
}

}  // namespace

Variables supervised_variables(const World& world) {
  return {{kRunSecret, world.secret},
          {"RANK", std::to_string(world.rank)},
          {"WORLD_SIZE", std::to_string(world.size)},
          {"LOCAL_RANK", std::to_string(world.local_rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(world.local_size)},
          {"MASTER_ADDR", world.address},
          {"MASTER_PORT", std::to_string(world.port)},
          {kSupervisor, fmt::format("attempt={};tries={};socket={};run={};launcher={}", world.attempt,
                                    world.port_tries, world.listen_socket, world.run_id, world.launcher)}};
}

std::optional<RankEnv> supervisor_env(const Variables& variables) {
  const std::optional<std::string> packed = text(variables, kSupervisor);
  if (!packed) return std::nullopt;
  RankEnv env = full_seat(variables, field(*packed, "launcher"));
  World& world = env.world;
  world.attempt = static_cast<uint32_t>(number_field(*packed, "attempt"));
  world.port_tries = static_cast<uint16_t>(number_field(*packed, "tries"));
  world.listen_socket = number_field(*packed, "socket");
  world.run_id = field(*packed, "run");
  world.supervised = true;
  return env;
}

std::optional<RankEnv> torchrun_env(const Variables& variables) {
  const std::optional<std::string> run = text(variables, "TORCHELASTIC_RUN_ID");
  if (!run) return std::nullopt;
  RankEnv env = full_seat(variables, "torchrun");
  World& world = env.world;
  world.attempt = static_cast<uint32_t>(number(variables, "TORCHELASTIC_RESTART_COUNT").value_or(0));
  world.run_id = fmt::format("torchrun {} {} {}", *run, world.port, world.size);
  // The elastic agent's own store listens at MASTER_PORT.
  if (text(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True") choose_port(world);
  return env;
}

std::optional<RankEnv> torch_variables_env(const Variables& variables) {
  if (!text(variables, "RANK") && !text(variables, "WORLD_SIZE") && !text(variables, "LOCAL_RANK"))
    return std::nullopt;
  const std::string because = fmt::format(
      "a process's place is not clear without it (set are: {}); a launcher sets all of RANK, WORLD_SIZE, "
      "MASTER_ADDR and MASTER_PORT; without a launcher unset them",
      quote(variables, kPlaces));
  RankEnv env{.rank_name = "RANK", .size_name = "WORLD_SIZE"};
  World& world = env.world;
  world.rank = required_number(variables, "RANK", 0, because);
  world.size = required_number(variables, "WORLD_SIZE", 1, because);
  // PyTorchJob starts one process a pod and says nothing of local ranks. With nprocPerNode it counts the
  // processes to be started in all.
  env.one_per_host = env.counts_devices = !text(variables, "LOCAL_RANK");
  world.launcher = env.one_per_host ? "PyTorchJob" : "RANK and LOCAL_RANK";
  if (env.one_per_host && text(variables, "PET_NPROC_PER_NODE") != "auto" &&
      text(variables, "PET_NPROC_PER_NODE") != "gpu" && text(variables, "PET_NPROC_PER_NODE") != "cpu")
    env.processes_per_host = number(variables, "PET_NPROC_PER_NODE", 1).value_or(0);
  if (env.processes_per_host > 1) {
    if (world.size % env.processes_per_host != 0)
      fail(PL_ERROR_CONFIG, "WORLD_SIZE={} in the environment: must be a multiple of PET_NPROC_PER_NODE={}",
           world.size, env.processes_per_host);
    world.size /= env.processes_per_host;
    env.size_name = "number of pods";
  }
  world.local_rank = number(variables, "LOCAL_RANK").value_or(0);
  world.local_size = number(variables, "LOCAL_WORLD_SIZE", 1).value_or(env.one_per_host ? 1 : 0);
  if (world.local_size == 0)
    fail(PL_ERROR_CONFIG, "LOCAL_WORLD_SIZE is not set in the environment, and {}", because);
  world.address = text(variables, "MASTER_ADDR").value_or("");
  world.port = port_number(variables, "MASTER_PORT").value_or(0);
  if (world.size > 1 && world.address.empty())
    fail(PL_ERROR_CONFIG, "MASTER_ADDR is not set in the environment, and {}", because);
  if (world.size > 1 && world.port == 0)
    fail(PL_ERROR_CONFIG, "MASTER_PORT is not set in the environment, and {}", because);
  world.run_id = fmt::format("{}:{}", world.address, world.port);
  return env;
}

std::optional<RankEnv> openmpi_env(const Variables& variables) {
  if (!text(variables, "OMPI_COMM_WORLD_RANK") && !text(variables, "OMPI_COMM_WORLD_SIZE"))
    return std::nullopt;
  RankEnv env{.rank_name = "OMPI_COMM_WORLD_RANK", .size_name = "OMPI_COMM_WORLD_SIZE", .one_per_host = true};
  World& world = env.world;
  const std::string because =
      "OpenMPI's mpirun sets it; without mpirun unset OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE";
  world.launcher = "OpenMPI (mpirun)";
  world.rank = required_number(variables, "OMPI_COMM_WORLD_RANK", 0, because);
  world.size = required_number(variables, "OMPI_COMM_WORLD_SIZE", 1, because);
  world.local_rank = required_number(variables, "OMPI_COMM_WORLD_LOCAL_RANK", 0, because);
  world.local_size = required_number(variables, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, because);
  world.run_id = "mpirun " + text(variables, "PMIX_NAMESPACE").value_or("");
  set_address(world, variables, [&] { return address_of_mpirun(variables, world.rank); });
  return env;
}

std::optional<RankEnv> pmi_env(const Variables& variables) {
  if (!text(variables, "PMI_RANK") && !text(variables, "PMI_SIZE")) return std::nullopt;
  RankEnv env{.rank_name = "PMI_RANK", .size_name = "PMI_SIZE", .one_per_host = true};
  World& world = env.world;
  const std::string because =
      "mpiexec of MPICH and Intel MPI sets it; without mpiexec unset PMI_RANK and PMI_SIZE";
  world.launcher = "MPI (PMI)";
  world.rank = required_number(variables, "PMI_RANK", 0, because);
  world.size = required_number(variables, "PMI_SIZE", 1, because);
  world.local_rank = world.size == 1 ? 0 : required_number(variables, "MPI_LOCALRANKID", 0, because);
  world.local_size = world.size == 1 ? 1 : required_number(variables, "MPI_LOCALNRANKS", 1, because);
  world.run_id = "mpiexec";
  set_address(world, variables, []() -> std::string {
    fail(PL_ERROR_CONFIG,
         "MPI (PMI) runs on several hosts, and MASTER_ADDR is not set: give it, as in mpiexec -genv "
         "MASTER_ADDR <host of rank 0> ...");
  });
  return env;
}

}  // namespace pipeline::launch
