#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/checkpoint/writer.hpp"
#include "tests/checkpoint/expect_error.hpp"
#include "tests/checkpoint/state.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::checkpoint {
namespace {

std::vector<StateTensor> large_state(uint32_t seed) {
  return {make_tensor("value", "a", {200, 1000}, kFloat32, seed),
          make_tensor("value", "b", {77}, kFloat32, seed + 1),
          make_tensor("exp_avg", "a", {200, 1000}, kFloat32, seed + 2)};
}

// Saves one checkpoint after the other, announcing each step on the pipe once it is on disk. Every fourth one
// is written twice.
[[noreturn]] void save_forever(const std::string& folder, uint64_t first, int announce) {
  Store store({folder, 2, true});
  BackgroundWriter writer(store);
  for (uint64_t step = first;; ++step) {
    for (int times = step % 4 == 0 ? 2 : 1; times > 0; --times) {
      writer.start(contents_of(step), source(large_state(static_cast<uint32_t>(step))));
      writer.finish();
      if (::write(announce, &step, sizeof step) != sizeof step) ::_exit(1);
    }
  }
}

// Two hundred times: a process that saves is killed at a random moment, and what it left must be whole and at
// least as new as what it had announced.
TEST(Kill, NoMomentLosesWhatWasSaved) {
  tests::FilesFolder folder;
  std::mt19937 random(20240611);
  uint64_t last = 0;
  uint64_t longest = 40000;  // microseconds until the kill; more where a save takes longer
  for (int round = 0; round < 200; ++round) {
    const uint64_t before = last;
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      save_forever(folder.path(), last + 1, ends[1]);
    }
    ::close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (uint64_t step = 0; ::read(ends[0], &step, sizeof step) == sizeof step;) last = step;
    ::close(ends[0]);

    Store store({folder.path(), 2, true});
    store.recover();
    std::vector<Rejected> rejected;
    const std::optional<Checkpoint> checkpoint = store.newest_good(&rejected);
    for (const Rejected& entry : rejected) ADD_FAILURE() << entry.reason;
    const bool saved = checkpoint && checkpoint->contents().step > before;
    longest = saved ? std::max<uint64_t>(longest * 7 / 8, 40000) : longest * 9 / 8;
    if (last == 0 && !checkpoint) continue;
    ASSERT_TRUE(checkpoint.has_value()) << "round " << round;
    const uint64_t step = checkpoint->contents().step;
    ASSERT_GE(step, last) << "round " << round;
    ASSERT_TRUE(holds(*checkpoint, large_state(static_cast<uint32_t>(step)))) << "round " << round;
    last = step;
  }
  EXPECT_GT(last, 20u);
}

}  // namespace
}  // namespace pipeline::checkpoint
