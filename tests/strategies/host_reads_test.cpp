// No step reads a value of a tensor on the host: on a device, that waits for all work before it.
#include <map>
#include <memory>
#include <string>

#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

// The operators that a thread calls itself while this lives, by name. What an operator calls is its own
// affair: the fused optimizers read their step count on the CPU alone.
class CalledOperators {
 public:
  CalledOperators()
      : callback_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}))) {
    depth_ = 0;
    names_.clear();
  }
  ~CalledOperators() { at::removeCallback(callback_); }
  CalledOperators(const CalledOperators&) = delete;
  CalledOperators& operator=(const CalledOperators&) = delete;

  const std::map<std::string, int>& names() const { return names_; }

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    if (depth_++ == 0) ++names_[function.name()];
    return nullptr;
  }
  static void end(const at::RecordFunction&, at::ObserverContext*) { --depth_; }

  static inline thread_local int depth_ = 0;
  static inline thread_local std::map<std::string, int> names_;
  at::CallbackHandle callback_;
};

// Operators that give a number to the host, or a tensor whose shape depends on values.
constexpr const char* kReads[] = {
    "aten::item",    "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal",     "aten::allclose",
    "aten::nonzero", "aten::masked_select",       "aten::_unique2",   "aten::unique_dim"};

void expect_one_look_at_the_norm(const RunOptions& options, int ranks) {
  constexpr int kSteps = 4;
  constexpr size_t kSometimes = 6;  // the parameter of the job that not every step uses
  const Job job = difficult_job(5);
  on_ranks(ranks, [&](const Rank& rank) {
    RunOptions mine = options;
    mine.group = rank.view();
    mine.micro_batches = 5;
    StrategyRun run(job.specs, job.optimizer, mine);
    std::map<std::string, int> reads;
    for (uint64_t step = 0; step < kSteps; ++step) {
      auto share = share_of(rank, run, job.batch(step));
      for (MicroBatch& micro_batch : share) {  // nothing comes late: that is looked at
        micro_batch.again.clear();
        if (!micro_batch.gradients.empty()) micro_batch.gradients[kSometimes] = at::Tensor();
      }
      uint64_t started = 0;
      {
        const CalledOperators called;
        started = run.start_step(share, StrategyRun::step_args(0.01, 1.0));
        for (const char* name : kReads)
          if (const auto found = called.names().find(name); found != called.names().end())
            reads[name] += found->second;
      }
      run.strategy().collect(started);
    }
    EXPECT_THAT(reads, testing::ElementsAre(testing::Pair("aten::item", kSteps)))
        << options.plugin << testing::PrintToString(options.sets) << ", rank " << rank.rank << " of " << ranks
        << (options.reproducible ? ", reproducible" : "");
  });
}

// On the CPU a step reads one number, the norm; elsewhere the norm stays where it is (gradient_norm.hpp).
TEST(HostReads, AreOneInAStep) {
  for (const bool reproducible : {false, true}) {
    expect_one_look_at_the_norm({.plugin = "single", .reproducible = reproducible}, 1);
    expect_one_look_at_the_norm({.plugin = "ddp", .reproducible = reproducible}, 2);
    for (const char* stage : {"1", "2", "3"})
      expect_one_look_at_the_norm({.plugin = "sharded",
                                   .reproducible = reproducible,
                                   .sets = {std::string("strategy.zero_stage=") + stage}},
                                  2);
  }
}

TEST(HostReads, AreSeen) {
  const at::Tensor one = at::ones({3});
  const CalledOperators called;
  EXPECT_EQ(one.sum().item<double>(), 3);
  EXPECT_TRUE(one.equal(one));
  for (const char* name : {"aten::sum", "aten::item", "aten::equal"})
    EXPECT_TRUE(called.names().contains(name)) << name;
  EXPECT_FALSE(called.names().contains("aten::_local_scalar_dense")) << "it is item's own affair";
}

// No slot of a step waits on the host: what comes after a collective is ordered on the stream of its buffers.

// Counts how a rank waits, and the streams that it names.
class CountingGroup {
 public:
  explicit CountingGroup(const pl_communicator& real) : api_(*real.api), view_(real) {
    real_ = real.api;
    waits_ = host_waits_ = 0;
    api_.wait = [](pl_comm* comm, pl_work* work, pl_stream stream) {
      ++waits_;
      EXPECT_EQ(stream.kind, PL_STREAM_NONE) << "the buffers are memory of the host";
      return real_->wait(comm, work, stream);
    };
    api_.wait_host = [](pl_comm* comm, pl_work* work, double timeout_seconds) {
      ++host_waits_;
      return real_->wait_host(comm, work, timeout_seconds);
    };
    view_.api = &api_;
  }
  const pl_communicator* view() const { return &view_; }
  static int waits() { return waits_; }
  static int host_waits() { return host_waits_; }

 private:
  static inline thread_local const pl_backend_api* real_ = nullptr;
  static inline thread_local int waits_ = 0, host_waits_ = 0;
  pl_backend_api api_;
  pl_communicator view_;
};

TEST(DdpStreams, AStepWaitsOnStreamsAlone) {
  for (const bool reproducible : {false, true}) {
    for (const char* plugin : {"ddp", "sharded"}) {
      on_ranks(2, [&](const Rank& rank) {
        const CountingGroup counting(*rank.view());
        const std::vector<ParameterSpec> specs{{"w", {33, 65}}, {"b", {7}, false}};
        StrategyRun run(
            specs, adamw(),
            {.plugin = plugin, .reproducible = reproducible, .micro_batches = 4, .group = counting.view()});
        const int before = counting.waits();
        for (uint64_t step = 0; step < 3; ++step) {
          std::vector<MicroBatch> mine;
          for (uint64_t m = 0; m < 2; ++m)
            mine.push_back({.gradients = random_gradients(specs, 10 * step + m), .loss = at::ones({})});
          run.strategy().collect(run.start_step(mine, StrategyRun::step_args(0.01, 1.0)));
        }
        EXPECT_GT(counting.waits(), before) << plugin;
        EXPECT_EQ(counting.host_waits(), 0) << plugin;
      });
    }
  }
}

}  // namespace
}  // namespace pipeline::strategies
