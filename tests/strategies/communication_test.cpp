// The bytes that each rank sends in a step: plugins/strategies/README.md says how many.
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

// A group that adds up what this rank sends, with the least that each collective can do with: a ring's
// all-reduce, and every element sent once by the others.
class CountedGroup {
 public:
  explicit CountedGroup(const pl_communicator& group) : group_(group), api_(*group.api), counted_(group) {
    api_.all_reduce = [](pl_comm* comm, const pl_buffer* in_out, uint32_t reduce, pl_work** out) {
      CountedGroup& self = of(comm);
      self.sent_ += 2 * bytes(*in_out) / self.ranks() * (self.ranks() - 1);
      return self.group_.api->all_reduce(self.group_.comm, in_out, reduce, out);
    };
    api_.reduce_scatter = [](pl_comm* comm, const pl_buffer* in, const pl_buffer* shard,
                             const uint64_t* counts, uint32_t reduce, pl_work** out) {
      CountedGroup& self = of(comm);
      self.sent_ += bytes(*in) - bytes(*shard);
      return self.group_.api->reduce_scatter(self.group_.comm, in, shard, counts, reduce, out);
    };
    api_.all_gather = [](pl_comm* comm, const pl_buffer* shard, const pl_buffer* full, const uint64_t* counts,
                         pl_work** out) {
      CountedGroup& self = of(comm);
      self.sent_ += bytes(*shard) * (self.ranks() - 1);
      return self.group_.api->all_gather(self.group_.comm, shard, full, counts, out);
    };
    api_.broadcast = [](pl_comm* comm, const pl_buffer* in_out, int32_t root, pl_work** out) {
      CountedGroup& self = of(comm);
      self.sent_ += bytes(*in_out);
      return self.group_.api->broadcast(self.group_.comm, in_out, root, out);
    };
    api_.all_to_all = [](pl_comm* comm, const pl_buffer* in, const pl_buffer* received,
                         const uint64_t* send_counts, const uint64_t* receive_counts, pl_work** out) {
      CountedGroup& self = of(comm);
      const auto own = static_cast<size_t>(self.group_.rank);
      const double kept = send_counts == nullptr ? bytes(*in) / self.ranks()
                                                 : static_cast<double>(send_counts[own]) * element(*in);
      self.sent_ += bytes(*in) - kept;
      return self.group_.api->all_to_all(self.group_.comm, in, received, send_counts, receive_counts, out);
    };
    api_.barrier = [](pl_comm* comm, pl_work** out) {
      return of(comm).group_.api->barrier(of(comm).group_.comm, out);
    };
    api_.wait = [](pl_comm* comm, pl_work* work, pl_stream stream) {
      return of(comm).group_.api->wait(of(comm).group_.comm, work, stream);
    };
    api_.wait_host = [](pl_comm* comm, pl_work* work, double timeout) {
      return of(comm).group_.api->wait_host(of(comm).group_.comm, work, timeout);
    };
    if (api_.is_done != nullptr) {
      api_.is_done = [](pl_comm* comm, pl_work* work) {
        return of(comm).group_.api->is_done(of(comm).group_.comm, work);
      };
    }
    counted_.api = &api_;
    counted_.comm = reinterpret_cast<pl_comm*>(this);
  }
  CountedGroup(const CountedGroup&) = delete;
  CountedGroup& operator=(const CountedGroup&) = delete;

  const pl_communicator* view() const { return &counted_; }
  double sent() const { return sent_; }

 private:
  static CountedGroup& of(pl_comm* comm) { return *reinterpret_cast<CountedGroup*>(comm); }
  static double element(const pl_buffer& buffer) { return buffer.dtype.bits / 8.0; }
  static double bytes(const pl_buffer& buffer) { return static_cast<double>(buffer.count) * element(buffer); }
  double ranks() const { return group_.world_size; }

  pl_communicator group_;
  pl_backend_api api_;
  pl_communicator counted_;
  double sent_ = 0;
};

constexpr int kRanks = 4;
constexpr uint64_t kOnARank = 3;  // micro-batches
constexpr uint32_t kUnits = 16;
constexpr double kParameters = 1 << 20;

std::vector<ParameterSpec> large_model() {
  std::vector<ParameterSpec> specs;
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    specs.push_back({"w" + std::to_string(unit), {60, 1024}, true, 1, true, unit});
    specs.push_back({"b" + std::to_string(unit), {4096}, false, 1, true, unit});
  }
  return specs;
}

// One micro-batch: forward through the units and back, handing over the gradients of each.
void train(StrategyRun& run, uint64_t seed) {
  const pl_unit_hooks* hooks = run.strategy().has_unit_hooks() ? &run.strategy().unit_hooks() : nullptr;
  const Gradients gradients = random_gradients(run.specs(), seed);
  const auto visit = [&](uint32_t unit, uint32_t pass) {
    if (hooks != nullptr) check(hooks->enter(hooks->user, unit, pass));
    for (size_t i = 2 * unit; pass == PL_PASS_BACKWARD && i < 2 * unit + 2; ++i)
      run.hand_over(i, gradients[i]);
    if (hooks != nullptr) check(hooks->leave(hooks->user, unit, pass));
  };
  for (uint32_t unit = 0; unit < kUnits; ++unit) visit(unit, PL_PASS_FORWARD);
  for (uint32_t unit = kUnits; unit-- > 0;) visit(unit, PL_PASS_BACKWARD);
  run.end_micro_batch(at::ones({}, at::kDouble));
}

// What a step sends once the order of gradients is known: the mean over ranks and three steps.
double sent_in_a_step(RunOptions options) {
  options.micro_batches = kRanks * kOnARank;
  const auto sent = each_rank(kRanks, [&](const Rank& rank) {
    CountedGroup group(*rank.view());
    RunOptions mine = options;
    mine.group = group.view();
    StrategyRun run(large_model(), adamw(), mine);
    double before = 0;
    for (uint64_t step = 0; step < 5; ++step) {
      if (step == 2) before = group.sent();
      run.strategy().begin_step(kOnARank);
      for (uint64_t m = 0; m < kOnARank; ++m) train(run, m);
      run.strategy().collect(run.strategy().step(StrategyRun::step_args(0.01, 1.0)));
    }
    run.strategy().gather_values();
    return (group.sent() - before) / 3;
  });
  double sum = 0;
  for (const double one : sent) sum += one;
  return sum / kRanks;
}

// What a step sends in groups of two ranks: within a group, and between groups.
struct Sent {
  double within = 0, between = 0;
};

Sent sent_in_groups(int stage) {
  const auto sent = each_rank(kRanks, [&](const Rank& rank) {
    std::map<std::string, std::unique_ptr<CountedGroup>> groups;
    RunOptions options{.plugin = "sharded",
                       .micro_batches = kRanks * kOnARank,
                       .sets = {"strategy.zero_stage=" + std::to_string(stage), "strategy.shard_group=\"2\""},
                       .group = rank.view(),
                       .part_group = [&](std::string_view name, const pl_communicator& group) {
                         auto& counted = groups[std::string(name)] = std::make_unique<CountedGroup>(group);
                         return *counted->view();
                       }};
    StrategyRun run(large_model(), adamw(), options);
    Sent before;
    for (uint64_t step = 0; step < 3; ++step) {
      if (step == 1) before = {groups.at("shards")->sent(), groups.at("copies")->sent()};
      run.strategy().begin_step(kOnARank);
      for (uint64_t m = 0; m < kOnARank; ++m) train(run, m);
      run.strategy().collect(run.strategy().step(StrategyRun::step_args(0.01, 1.0)));
    }
    run.strategy().gather_values();
    return Sent{(groups.at("shards")->sent() - before.within) / 2,
                (groups.at("copies")->sent() - before.between) / 2};
  });
  return sent.front();
}

// Groups of S = 2 of N = 4 ranks: between groups the gradients' sums go once a step, whatever the stage and
// the number of micro-batches.
TEST(Communication, BetweenGroupsIsWhatTheReadmeSays) {
  constexpr double kSize = 2, kGroups = kRanks / kSize;
  for (const int stage : {1, 2}) {
    const Sent sent = sent_in_groups(stage);
    const double passes = stage == 1 ? 1 : kOnARank;
    const double within = (passes * 4 + 4) * kParameters * (kSize - 1) / kSize;
    const double between = 2 * 4 * kParameters / kSize * (kGroups - 1) / kGroups;
    EXPECT_NEAR(sent.within, within, 0.02 * within) << stage;
    EXPECT_NEAR(sent.between, between, 0.02 * between) << stage;
  }
}

// A step sends (N - 1) / N of these bytes; two percent are for norms, losses and what fills up buckets.
void expect_sent(const RunOptions& options, double bytes_per_parameter, double tolerance = 0) {
  const double expected = bytes_per_parameter * kParameters * (kRanks - 1) / kRanks;
  EXPECT_NEAR(sent_in_a_step(options), expected, (tolerance + 0.02) * expected)
      << options.plugin << " " << options.sets[0];
}

TEST(Communication, IsWhatTheReadmeSays) {
  expect_sent({.plugin = "ddp", .sets = {"strategy.reduction=\"fp32\""}}, 2 * 4);
  expect_sent({.plugin = "ddp", .sets = {"strategy.reduction=\"bf16\""}}, 2 * 2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double weight = type == at::kFloat ? 4 : 2;
    for (const double gradient : {4, 2}) {
      const std::string reduction =
          std::string("strategy.reduction=\"") + (gradient == 4 ? "fp32" : "bf16") + "\"";
      const auto options = [&](int stage) {
        return RunOptions{.plugin = "sharded",
                          .dtype = type,
                          .sets = {"strategy.zero_stage=" + std::to_string(stage), reduction}};
      };
      expect_sent(options(1), gradient + weight);
      expect_sent(options(2), kOnARank * gradient + weight);
      // Some of unit 0 and the units in the two slots are still there when they are needed again: at most as
      // many as there are places whenever a pass turns round.
      const double most = 2, least = 2 * (kUnits - 3.0) / kUnits;
      const double weights = (most + least) / 2, spread = (most - least) / 2;
      expect_sent(options(3), kOnARank * (gradient + weights * weight),
                  kOnARank * spread * weight / (kOnARank * (gradient + weights * weight)));
    }
  }
}

}  // namespace
}  // namespace pipeline::strategies
