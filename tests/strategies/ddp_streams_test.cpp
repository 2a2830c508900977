// No slot of a step waits on the host: what comes after a collective is ordered on the stream of its buffers.
#include <gtest/gtest.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

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
