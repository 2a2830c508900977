#include "tests/strategies/ranks.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <latch>
#include <test_paths.hpp>
#include <thread>

#include "core/train/data/batch_plan.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::strategies {
namespace {

constexpr std::chrono::seconds kTimeout{60};

const plugins::Plugin& fake() {
  return plugins::Plugin::load(PIPELINE_BUILD_DIR "/tests/plugins/backends/fake.so");
}

plugins::OpenArgs open_args(int rank, int world_size) {
  plugins::OpenArgs args;
  args.rank = args.local_rank = rank;
  args.world_size = args.local_world_size = world_size;
  args.timeout = kTimeout;
  return args;
}

// The first exception of any rank.
class FirstError {
 public:
  void keep(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

thread_local peers::Peers* own_peers = nullptr;
thread_local int32_t own_rank = 0;

}  // namespace

peers::Peers* this_ranks_peers() { return own_peers; }

PartGroup::PartGroup(std::string_view name, const std::vector<int32_t>& members) {
  const auto mine = std::ranges::find(members, own_rank) - members.begin();
  plugins::OpenArgs args = open_args(static_cast<int>(mine), static_cast<int>(members.size()));
  args.group = std::string(name) + " of " + std::to_string(members.front());
  args.members = members;
  plugins::give_exchange_among(context_, *own_peers, args.group, members, args.rank, kTimeout);
  group_ = std::make_unique<plugins::Communicator>(fake(), context_, nullptr, args);
}

void fail_on(const Rank& rank, const std::string& why) {
  own_peers->fail(why);
  rank.group->abort(why);
}

void on_ranks(int world_size, const std::function<void(const Rank&)>& body) {
  if (world_size == 1) return body(Rank{});
  fake();
  peers::Group run(world_size);
  FirstError error;
  std::latch done(world_size);  // a rank that left would end the others' waits
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);  // the ranks share the cores
      peers::Peers peers(run.world(rank), {});
      own_peers = &peers;
      own_rank = rank;
      pl_context context("backend fake");
      plugins::give_exchange(context, peers);
      plugins::Communicator group(fake(), context, nullptr, open_args(rank, world_size));
      try {
        body({rank, world_size, &group});
      } catch (const std::exception& e) {
        error.keep(std::current_exception());
        fail_on({rank, world_size, &group}, e.what());
      }
      done.arrive_and_wait();
    });
  }
  threads.clear();
  error.rethrow();
}

std::vector<MicroBatch> share_of(const Rank& rank, const StrategyRun& run,
                                 const std::vector<MicroBatch>& micro_batches) {
  train::BatchPlan plan;
  plan.world_size = static_cast<uint64_t>(rank.world_size);
  plan.micro_batches = micro_batches.size();
  std::vector<MicroBatch> share;
  for (const auto& index :
       plan.micro_batches_of(static_cast<uint64_t>(rank.rank), run.strategy().info().micro_batch_order)) {
    share.push_back(index ? micro_batches[*index] : MicroBatch{});
  }
  return share;
}

}  // namespace pipeline::strategies
