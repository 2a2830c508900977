// What the processes of a run tell each other besides tensors: small exchanges on the host, what each is
// doing, and who has failed.
//
// Rank 0 serves at world.address:world.port, on a thread of its own; every rank has one connection to it. The
// server decides: the first failure that it hears of is the failure, on all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/world.hpp"

namespace pipeline::peers {

struct Failure {
  int32_t rank = 0;
  std::string host;
  std::string what;
  // Nobody said why: connection lost, stalled. `what` then is a whole sentence that names the ranks.
  bool by_peer_loss = false;
  bool stalled = false;  // of these: the process is there, but does nothing
};

// "rank 3 (host b): cannot read ...", for people.
std::string describe(const Failure& failure);

struct Options {
  std::chrono::duration<double> timeout{300};  // of the rendezvous
  std::chrono::duration<double> stall{600};    // launch.stall_seconds; 0: never. The same on all ranks
  // Asked several times a second while the constructor waits for others, on its thread; true: it gives up
  // with PL_ERROR_CANCELLED, on all ranks that are there.
  std::function<bool()> cancelled;
  // Called once, on a background thread, when any rank (this one, too) failed or was lost: aborts the
  // communicator. Not for failures during the rendezvous, which the constructor throws, nor after leave().
  std::function<void(const Failure&)> on_failure;
  // What collective this rank waits in: "all_reduce #12 (4096 x float32) for 3 s"; empty: none. Called about
  // once a second on a background thread.
  std::function<std::string()> collective;
};

class Client;  // how a rank takes part

class Peers {
 public:
  // Blocks until all ranks are there. Throws Error: PL_ERROR_TIMEOUT says which ranks are missing, for how
  // long, and the remedies. A run of one process opens no port.
  Peers(const World& world, Options options);
  ~Peers();  // leave(); ends within seconds whatever the others do
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Exchanges: all ranks call the same ones in the same order on a channel, and each returns when all have
  // called it. A channel is used by one thread at a time, different ones by different threads at once. They
  // throw Error(PL_ERROR_PEER) with describe(failure) as soon as any rank has failed. [any-thread]
  //
  // All ranks' bytes, by rank; gather: on rank 0, an empty vector on the others. `cancelled`, asked several
  // times a second: true gives up with PL_ERROR_CANCELLED, and the channel cannot be used any more.
  std::vector<std::string> all_gather(std::string_view channel, std::string_view mine,
                                      const std::function<bool()>& cancelled = {});
  std::vector<std::string> gather(std::string_view channel, std::string_view mine);
  // What rank 0 gave.
  std::string broadcast(std::string_view channel, std::string_view from_rank_0);
  void barrier(std::string_view channel);

  // A table that all ranks see. get() waits for the key and returns nothing when the time is up. They fail as
  // exchanges do. [any-thread]
  void put(std::string_view key, std::string_view value);
  std::optional<std::string> get(std::string_view key, std::chrono::duration<double> timeout,
                                 const std::function<bool()>& cancelled = {});

  // What this rank is doing, for the texts about stalls. Counts as progress. Costs less than a microsecond.
  // [any-thread]
  void at(std::string_view phase, uint64_t step);
  // Still alive in the same phase: a long download, a long preparation. [any-thread]
  void progress();

  // Tells all others; the first one of the run wins, others are ignored. Returns when the server has it,
  // within two seconds at most, so that the process may end right after. A failure that only follows from
  // another rank's (PL_ERROR_PEER of a backend) is not worth telling before failure(2s) had nothing better.
  // [any-thread]
  void fail(std::string_view what) noexcept;

  // A good end: after it a lost connection is no failure, and the exchanges throw. Rank 0 keeps serving the
  // others until its Peers is destroyed. An exchange that still waits for a rank that has left fails.
  void leave() noexcept;

  // The failure of the run, if there is one by now or within `wait`. [any-thread]
  std::optional<Failure> failure(std::chrono::duration<double> wait = {}) const;

 private:
  const int32_t rank_;
  const std::size_t size_;
  std::unique_ptr<Client> client_;
};

}  // namespace pipeline::peers
