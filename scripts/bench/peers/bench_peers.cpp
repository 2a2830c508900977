// What an exchange between the processes of a run costs, in microseconds: alone, and while every core
// computes.
//   bench_peers [RANKS=2] [ROUNDS=5000]
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/peers/peers.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using pipeline::World;
using pipeline::peers::Peers;

// Keeps cores busy as a training step does, with ordinary threads of this process.
class Busy {
 public:
  explicit Busy(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { compute(); });
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void compute() {
    volatile double sum = 0;
    while (!stop_)
      for (int i = 1; i < 100'000; ++i) sum = sum + 1.0 / i;
  }
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

void measure(Peers& peers, const World& world, const char* name, std::size_t bytes, unsigned busy,
             int rounds) {
  const std::string mine(bytes, 'x');
  std::vector<double> times;
  const Busy others(busy);
  for (int i = 0; i < rounds; ++i) {
    if (busy > 0 && i % 5 == 0)
      peers.barrier("pause"), std::this_thread::sleep_for(std::chrono::milliseconds(2));
    peers.barrier("start");
    const auto begin = Clock::now();
    peers.all_gather("bench", mine);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  if (world.rank == 0)
    fmt::print(
        "all_gather, {} ranks, {:>8} bytes each, {}: median {:8.1f}  90% {:8.1f}  99% {:8.1f}  max {:8.1f} "
        "us\n",
        world.size, bytes, name, at(0.5), at(0.9), at(0.99), times.back());
}

void take_part(World world, int rounds) {
  Peers peers(world, {});
  const unsigned share =
      std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(world.size));
  measure(peers, world, "cores idle", 64, 0, rounds);
  measure(peers, world, "cores busy", 64, share, std::max(rounds / 10, 10));
  measure(peers, world, "cores idle", 1 << 20, 0, std::max(rounds / 20, 10));
}

}  // namespace

int main(int argc, char** argv) {
  World world;
  world.size = world.local_size = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5000;
  world.address = "127.0.0.1";
  world.port = static_cast<std::uint16_t>(20'000 + ::getpid() % 10'000);
  for (world.rank = world.local_rank = 1; world.rank < world.size; world.local_rank = ++world.rank)
    if (::fork() == 0) {
      take_part(world, rounds);
      ::_exit(0);
    }
  world.rank = world.local_rank = 0;
  take_part(world, rounds);
  while (::wait(nullptr) > 0) {
  }
  return 0;
}
