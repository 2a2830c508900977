#include <cstdlib>

#include <gtest/gtest.h>

#include "core/observe/console.hpp"
#include "core/observe/log.hpp"
#include "core/train/processes/process_group.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::train {
namespace {

TEST(Clock, OfAnotherMachineIsComparedWithRank0s) {
  peers::Group group(3);
  std::vector<std::optional<ClockOffset>> offsets(3);
  const auto thrown = peers::as_threads(3, [&](int32_t rank) {
    observe::Console console(observe::Console::Mode::off);
    observe::Log log(console, observe::Level::error);
    ProcessGroup processes(group.world(rank), log,
                           {.rendezvous = std::chrono::seconds(20), .stall = std::chrono::seconds(20)});
    offsets[static_cast<size_t>(rank)] = compare_clocks(processes, rank < 2 ? "one machine" : "another");
    processes.peers().barrier("end");
  });
  EXPECT_EQ(thrown, std::vector<std::string>(3));
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(offsets[static_cast<size_t>(rank)]);
    EXPECT_EQ(offsets[static_cast<size_t>(rank)]->nanoseconds, 0) << rank;
    EXPECT_EQ(offsets[static_cast<size_t>(rank)]->error, 0) << rank;
  }
  ASSERT_TRUE(offsets[2]);  // in truth it is this machine's
  EXPECT_GT(offsets[2]->error, 0);
  EXPECT_LE(std::llabs(offsets[2]->nanoseconds), offsets[2]->error);
}

}  // namespace
}  // namespace pipeline::train
