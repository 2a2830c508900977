// The processes of a run, as training sees them: which one this is, what they tell each other besides
// tensors, and that the failure of one ends all. With one process everything here is trivial, so nobody asks
// how many there are.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/thread.hpp"
#include "core/base/world.hpp"
#include "core/observe/log.hpp"
#include "core/peers/peers.hpp"
#include "core/plugins/backend.hpp"

namespace pipeline::train {

class ProcessGroup {
 public:
  struct Options {
    std::chrono::duration<double> rendezvous;   // launch.rendezvous_seconds
    std::chrono::duration<double> stall;        // launch.stall_seconds
    size_t largest_exchange = size_t{1} << 28;  // bytes of all ranks that are on the way at once, about
  };

  // Blocks until all processes are there. `log` must outlive it.
  ProcessGroup(const World& world, observe::Log& log, const Options& options);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const World& world() const { return world_; }
  const Options& options() const { return options_; }
  bool is_first() const { return world_.rank == 0; }
  // The variables that the program and its libraries heed, as they were at the start.
  const std::vector<std::string>& variables() const { return variables_; }
  // How many processes of this host, this one included, may use the same cores. All ranks ask together, the
  // first time.
  unsigned sharing_cores();
  peers::Peers& peers() { return *peers_; }

  // Rank 0 does it, the others wait; all get what it returned. What it throws there ends the others with
  // PL_ERROR_PEER.
  std::string on_first(std::string_view what, const std::function<std::string()>& part);
  template <class Part>
  requires std::is_void_v<std::invoke_result_t<Part>>
  void on_first(std::string_view what, const Part& part) {
    on_first(what, std::function<std::string()>([&] { return part(), std::string(); }));
  }

  // Runs `part` on each rank; true if a signal stopped it on any of them. All ranks call it, and then leave
  // or go on together.
  bool stopped(const std::function<void()>& part);

  // After all have agreed to stop: signals count no more, and nobody is gone before all are done.
  void leave_together();

  // While it lives this rank counts as making progress: for work on files, whose length depends on their size
  // alone.
  class Busy {
   public:
    explicit Busy(ProcessGroup& processes)
        : ticker_("pl-busy", std::chrono::seconds(1), [&] { return processes.peers().progress(), true; }) {}

   private:
    Ticker ticker_;
  };

  // What every rank gives, by rank. CBOR on the way, which keeps doubles to the bit and takes text of any
  // encoding. All ranks together.
  std::vector<nlohmann::json> exchange(std::string_view channel, const nlohmann::json& mine);

  // The bytes of every rank, by rank, on rank 0 alone or on all. Of any length: they go in pieces, since one
  // exchange has a limit. All ranks together.
  enum class To { first, all };
  std::vector<std::string> gather(std::string_view channel, const std::string& mine, To to);

  // A number for a group of ranks, the same on all of them, who open the same ones.
  unsigned next_group() { return ++groups_; }
  // When a rank fails, the collectives of `groups` end with an error, until others are named. [main]
  void watch(std::vector<plugins::Communicator*> groups);

  // What is being done, for errors and for finding who hangs.
  void at(std::string_view phase, uint64_t step);

  // Prints a failure of another rank, where that rank has not done so itself and this is the one that should:
  // one process of each host.
  void tell(const peers::Failure& failure);

  // The exit code for another rank's failure: no host starts again what would fail so again.
  int exit_code(const peers::Failure& failure) const;

  // After an exception: was it only the consequence of another rank's failure? Waits a moment for the news.
  // Otherwise the others are told, which is best done before much is unwound. Asked again, it gives the same
  // answer.
  std::optional<peers::Failure> cause_of(const std::exception& error);

 private:
  void on_failure(const peers::Failure& failure);
  void tell_where(const peers::Failure& failure);
  void start_last_resort(const peers::Failure& failure);
  std::string pending_collective();

  const World world_;
  const Options options_;
  observe::Log& log_;
  const std::vector<std::string> variables_;
  std::optional<unsigned> sharing_cores_;
  std::optional<std::optional<peers::Failure>> cause_;
  unsigned groups_ = 0;
  std::mutex group_mutex_;
  std::vector<plugins::Communicator*> watched_;
  std::mutex mutex_;  // of what follows: failures come on another thread
  std::condition_variable left_;
  bool leaving_ = false;
  bool told_ = false;
  std::thread last_resort_;
  std::unique_ptr<peers::Peers> peers_;  // goes first: it calls on_failure
};

// Nanoseconds since 1970, as this host's clock has it.
int64_t clock_nanoseconds();

// By how much the clocks of two hosts differ.
struct ClockOffset {
  int64_t nanoseconds = 0;  // to add to this rank's clock to get rank 0's
  int64_t error = 0;        // at most; 0: it is the same clock
};

// Which machine's clock this process reads.
std::string this_machine();

// Ranks on rank 0's machine share its clock; each of the others asks rank 0 for the time and takes the
// fastest of a few answers. nullopt: rank 0 did not answer. All ranks together.
std::optional<ClockOffset> compare_clocks(ProcessGroup& processes, const std::string& machine);

}  // namespace pipeline::train
