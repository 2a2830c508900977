#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/peers/peers.hpp"
#include "core/plugins/backend.hpp"
#include "core/plugins/host.hpp"
#include "tests/strategies/strategy_run.hpp"

namespace pipeline::strategies {

// One of the ranks of a test: a thread of this process.
struct Rank {
  int rank = 0;
  int world_size = 1;
  plugins::Communicator* group = nullptr;  // over the fake backend; none with one rank, as in the core

  // The group for RunOptions.group.
  const pl_communicator* view() const { return group ? &group->view() : nullptr; }
  // Collectives that have been started, by the record that the core keeps.
  size_t started() const {
    const auto flights = group->record().recent();
    return flights.empty() ? 0 : flights.back().sequence;
  }
};

// The RankGroup of the rank whose thread this is; null where there is one rank.
peers::Peers* this_ranks_peers();

// A group of some ranks over the fake backend, as the core opens them.
class PartGroup {
 public:
  PartGroup(std::string_view name, const std::vector<int32_t>& members);
  const pl_communicator& view() const { return group_->view(); }

 private:
  pl_context context_{"backend fake"};
  std::unique_ptr<plugins::Communicator> group_;
};

// This rank has failed: the others hear of it and the group is aborted, as by the core.
void fail_on(const Rank& rank, const std::string& why);

// Runs `body` as each rank; with one rank in this very thread. Returns when all are through. What a rank
// throws first ends the waits of the others and is thrown here.
void on_ranks(int world_size, const std::function<void(const Rank&)>& body);

// Runs `body` as each rank; what each of them returns, by rank.
template <class Body>
auto each_rank(int world_size, const Body& body) {
  std::vector<decltype(body(Rank{}))> results(static_cast<size_t>(world_size));
  on_ranks(world_size, [&](const Rank& rank) { results[static_cast<size_t>(rank.rank)] = body(rank); });
  return results;
}

// The part of a step's micro-batches that the core gives to this rank, in the order that its strategy asks
// for. Where the ranks do not divide them, trailing ones are empty.
std::vector<MicroBatch> share_of(const Rank& rank, const StrategyRun& run,
                                 const std::vector<MicroBatch>& micro_batches);

}  // namespace pipeline::strategies
