// From a command to its processes: find_place() determines whether this process is a rank or the supervisor
// of a host's ranks.
//
//   const auto place = launch::find_place(request);
//   if (const auto* plan = std::get_if<launch::HostPlan>(&place)) return launch::supervise(*plan);
//   work_as(std::get<World>(place));   // size 1: no networking at all
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/world.hpp"
#include "core/launch/rank_env.hpp"

namespace pipeline::launch {

// Exit codes of a rank that ends because another one failed, and because what failed there would fail again:
// an error of the configuration. The supervisor never blames such a rank.
constexpr int kPeerFailed = 76, kPeerRefused = 77;

// How lines begin that a rank writes while it waits for others: the supervisor of a host without rank 0 shows
// them.
constexpr std::string_view kWaitingLine = "waiting for ";

// Flags from the command line. `local_rank` is what `python -m torch.distributed.launch` adds before the
// verb: `pipeline --local-rank=1 run x.toml`; under torchrun it must agree with the environment.
struct LaunchFlags {
  std::optional<int32_t> nodes, node_rank, local_rank;
  std::optional<std::string> master_address;
  std::optional<uint16_t> master_port;
};

struct LaunchRequest {
  LaunchFlags flags;
  std::optional<int32_t> processes;  // launch.processes, per host
  int32_t cuda_devices = 0;          // find_devices().cuda.size()
  uint32_t max_restarts = 0;         // launch.max_restarts
  std::filesystem::path run_dir;     // where ranks other than 0 print to logs/rank-N.out; empty: nowhere
};

// The ranks that one host's supervisor starts.
struct HostPlan {
  int32_t processes = 1;
  int32_t nodes = 1, node_rank = 0;
  std::string launcher = "pipeline";
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: a free one for each attempt
  uint16_t port_tries = 1;
  std::string run_id;
  std::string secret;  // empty: one is generated if all ranks are on this host
  uint32_t max_restarts = 0;
  std::filesystem::path run_dir;
  // After the first failure: how long the others have to notice by themselves, and when they are killed.
  // All must end within 15 s.
  std::chrono::milliseconds grace{5000}, kill_after{8000};
};

// Reads the environment. Returns a World if this process is a rank (alone: size 1), or a HostPlan to pass
// to supervise(). Throws Error (PL_ERROR_CONFIG) if variables or flags contradict each other or are
// incomplete; it names them with their values.
std::variant<World, HostPlan> find_place(const LaunchRequest& request,
                                         const Variables& variables = own_variables());

// The rank that the environment names; 0 if there is none or it cannot be read. Decides which process
// prints an error before find_place() could be called.
int32_t rank_in_environment() noexcept;

// Starts `command` once per local rank (empty: this program with this command line), watches the processes,
// ends all when one fails, restarts them up to max_restarts times, and returns the overall exit code: 0; 75
// if all saved on request; 2 for what would fail so again, such as configuration errors; 128 + n after a
// second signal n; otherwise 1. Takes over the process's signals. Call it from the main thread: the processes
// die with the thread that started them.
int supervise(const HostPlan& plan, std::vector<std::string> command = {});

// The environment variables in force, out of the closed list that the program and its libraries read, as
// "NAME=value", sorted by name.
std::vector<std::string> variables_in_force();

// How ranks on several hosts, or under another launcher, get the secret of their run: a small file next to
// the run's folder, shared by the ranks and readable only by its owner. The first rank that needs it creates
// it; rank 0 removes it with its RunSecret, once the ranks have met. If rank 0 was killed before that, the
// same run's next start uses the file, and another run's removes it a day later.
class RunSecret {
 public:
  // Sets world.secret if the environment has none; `note()` says why it is still empty. Throws Error
  // (PL_ERROR_CONFIG) if the file might belong to another user.
  RunSecret(World& world, const std::filesystem::path& run_dir);
  ~RunSecret();
  RunSecret(const RunSecret&) = delete;
  RunSecret& operator=(const RunSecret&) = delete;

  const std::string& note() const { return note_; }

 private:
  std::filesystem::path file_;  // to be removed
  std::string note_;
};

}  // namespace pipeline::launch
