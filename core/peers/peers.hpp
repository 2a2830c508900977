// What the processes of a run exchange besides tensors: small messages on the host, what each is doing, and
// which have failed.
//
// Rank 0 serves at world.address:world.port, on a thread of its own; every rank has one connection to it.
// The server decides: the first failure that it learns of is the run's failure, on all ranks.
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
#include "pipeline.h"

namespace pipeline::peers {

struct Failure {
  int32_t rank = 0;
  std::string host;
  std::string what;
  // No rank reported a reason: a connection was lost, or a rank stalled. `what` is then a whole sentence
  // that names the ranks.
  bool by_peer_loss = false;
  bool stalled = false;  // with by_peer_loss: the process is there, but does nothing
  bool lasting = false;  // reported with PL_ERROR_CONFIG: the same again would fail so again
};

// "rank 3 (host b): cannot read ...", for people.
std::string describe(const Failure& failure);

struct PeersOptions {
  std::chrono::duration<double> timeout{300};  // of the rendezvous
  std::chrono::duration<double> stall{600};    // launch.stall_seconds; 0: never. The same on all ranks
  // Called while the constructor waits, on another thread, with what for, a whole line: where rank 0 is
  // looked for and what came of it, or who is missing. After `notice`, then as often again if that has
  // changed, and seldom if it has not.
  std::function<void(const std::string& what)> on_waiting;
  std::chrono::duration<double> notice{4};
  // Called several times a second while the constructor waits for others, on its thread. True: the
  // constructor gives up with PL_ERROR_CANCELLED, on all ranks that have joined.
  std::function<bool()> cancelled;
  // Called once, on a background thread, when any rank (this one, too) has failed or was lost: aborts the
  // communicator. Not called for failures during the rendezvous, which the constructor throws, or after
  // leave().
  std::function<void(const Failure&)> on_failure;
  // Returns the collective that this rank waits in: "all_reduce #12 (4096 x float32) for 3 s"; empty: none.
  // Called about once a second on a background thread.
  std::function<std::string()> collective;
};

class Client;  // how a rank takes part

class Peers {
 public:
  // Blocks until all ranks have joined. Throws Error: PL_ERROR_TIMEOUT says which ranks are missing, for
  // how long, and the remedies. A run of one process opens no port.
  Peers(const World& world, PeersOptions options);
  ~Peers();  // calls leave(); returns within seconds, whatever the others do
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Exchanges: on each channel all ranks call the same ones in the same order, and each returns when all
  // ranks have called it. A channel is used by one thread at a time; different threads may use different
  // channels at once. Exchanges throw Error(PL_ERROR_PEER) with describe(failure) as soon as any rank has
  // failed. [any-thread]
  //
  // all_gather returns all ranks' bytes, by rank; gather returns them on rank 0, an empty vector on the
  // others. `cancelled` is called several times a second; true: gives up with PL_ERROR_CANCELLED, and the
  // channel can no longer be used.
  std::vector<std::string> all_gather(std::string_view channel, std::string_view mine,
                                      const std::function<bool()>& cancelled = {});
  std::vector<std::string> gather(std::string_view channel, std::string_view mine);
  // Returns rank 0's bytes.
  std::string broadcast(std::string_view channel, std::string_view from_rank_0);
  void barrier(std::string_view channel);

  // A table that all ranks see. get() waits for the key, and returns nothing if the time is up. Both fail
  // as exchanges do. [any-thread]
  void put(std::string_view key, std::string_view value);
  std::optional<std::string> get(std::string_view key, std::chrono::duration<double> timeout,
                                 const std::function<bool()>& cancelled = {});

  // Reports what this rank is doing, for messages about stalls. Counts as progress. Costs less than a
  // microsecond. [any-thread]
  void at(std::string_view phase, uint64_t step);
  // Reports progress within a phase: a long download, a long preparation. [any-thread]
  void progress();

  // Reports a failure to all ranks; the first one in the run counts, later ones are ignored. Returns when
  // the server has it, after two seconds at most, so that the process may end right away. If the failure
  // only follows from another rank's (PL_ERROR_PEER of a backend), report it only if failure(2s) returns
  // nothing better. [any-thread]
  void fail(std::string_view what, uint32_t code = PL_ERROR_FAILED) noexcept;

  // Ends participation normally: afterwards a lost connection is not a failure, and exchanges throw. Rank 0
  // keeps serving the others until its Peers is destroyed. An exchange that waits for a rank that has left
  // fails.
  void leave() noexcept;

  // Returns the failure of the run, if there is one now or within `wait`. [any-thread]
  std::optional<Failure> failure(std::chrono::duration<double> wait = {}) const;

 private:
  const int32_t rank_;
  const std::size_t size_;
  std::unique_ptr<Client> client_;
};

}  // namespace pipeline::peers
