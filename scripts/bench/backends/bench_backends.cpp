// Collectives of 1 to 100 MiB of float32 between processes of this host: our gloo and shm backends, and
// c10d's own collectives over Gloo, in turns in one run. Prints GB/s (bytes of the whole buffer over the
// median time) and what shm is faster by.
//
//   bench_backends [--processes N] [--rounds N] [--most-mib N]
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "competitors.hpp"
#include "scripts/bench/free_port.hpp"

namespace {

using bench::Competitor;
using bench::Operation;

struct Job {
  int processes = 2;
  int rounds = 15;
  int most_mib = 100;
  int rank = -1;  // of a process that was started by the first one
  int port = 0, their_port = 0;
};

Job parse(int argc, char** argv) {
  Job job;
  const std::map<std::string, int*> known{{"--processes", &job.processes}, {"--rounds", &job.rounds},
                                          {"--most-mib", &job.most_mib},   {"--rank", &job.rank},
                                          {"--port", &job.port},           {"--their-port", &job.their_port}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto found = known.find(argv[i]);
    if (found == known.end()) throw std::invalid_argument(std::string("unknown option ") + argv[i]);
    *found->second = std::atoi(argv[i + 1]);
  }
  return job;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double seconds_of(Competitor& competitor, Operation operation, std::vector<float>& full,
                  std::vector<float>& shard) {
  competitor.barrier();
  const auto begin = std::chrono::steady_clock::now();
  competitor.run(operation, full, shard);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void compare(const Job& job, std::vector<std::unique_ptr<Competitor>>& all, Operation operation,
             const char* name, int mib) {
  const std::size_t count = (static_cast<std::size_t>(mib) << 18) / static_cast<std::size_t>(job.processes);
  std::vector<float> full(count * static_cast<std::size_t>(job.processes), 0.0f), shard(count, 0.0f);
  std::vector<std::vector<double>> times(all.size());
  for (int round = -2; round < job.rounds; ++round) {  // two to warm up
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double seconds = seconds_of(*all[i], operation, full, shard);
      if (round >= 0) times[i].push_back(seconds);
    }
  }
  if (job.rank != 0) return;
  std::printf("%-14s %4d MiB", name, mib);
  for (std::size_t i = 0; i < all.size(); ++i)
    std::printf("   %s %6.2f GB/s", all[i]->name().c_str(),
                static_cast<double>(mib) * 1048576e-9 / median(times[i]));
  const double ours = median(times.back());
  std::printf("   shm over c10d %5.2f, over gloo %5.2f\n", median(times[0]) / ours, median(times[1]) / ours);
  std::fflush(stdout);
}

// How long the shortest call takes.
void compare_barriers(const Job& job, std::vector<std::unique_ptr<Competitor>>& all) {
  constexpr int kCalls = 50;
  if (job.rank == 0) std::printf("barrier               ");
  for (auto& competitor : all) {
    std::vector<double> times;
    for (int round = 0; round < job.rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) competitor->barrier();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
                      kCalls);
    }
    if (job.rank == 0) std::printf("   %s %8.1f us", competitor->name().c_str(), 1e6 * median(times));
  }
  if (job.rank == 0) std::printf("\n");
}

int be_rank(const Job& job) {
  pipeline::World world;
  world.rank = world.local_rank = job.rank;
  world.size = world.local_size = job.processes;
  world.address = "127.0.0.1";
  world.port = static_cast<std::uint16_t>(job.port);
  pipeline::peers::Peers peers(world, {});
  const bench::Place place{job.rank, job.processes, static_cast<std::uint16_t>(job.their_port), &peers};
  std::vector<std::unique_ptr<Competitor>> all;
  all.push_back(bench::c10d_gloo(place));
  all.push_back(bench::our_backend("gloo", place));
  all.push_back(bench::our_backend("shm", place));
  if (job.rank == 0) std::printf("%d processes, median of %d rounds\n", job.processes, job.rounds);
  compare_barriers(job, all);
  for (const int mib : {1, 10, 25, 100}) {
    if (mib > job.most_mib) continue;
    compare(job, all, Operation::all_reduce, "all_reduce", mib);
    compare(job, all, Operation::reduce_scatter, "reduce_scatter", mib);
    compare(job, all, Operation::all_gather, "all_gather", mib);
  }
  for (auto& competitor : all) competitor->barrier();
  return 0;
}

// Ranks are programs of their own: LibTorch's threads do not survive a fork.
int start_ranks(const Job& job) {
  const std::string port = std::to_string(bench::free_port()),
                    their_port = std::to_string(bench::free_port());
  for (int rank = 0; rank < job.processes; ++rank) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", "bench_backends", "--rank", std::to_string(rank).c_str(), "--port",
            port.c_str(), "--their-port", their_port.c_str(), "--processes",
            std::to_string(job.processes).c_str(), "--rounds", std::to_string(job.rounds).c_str(),
            "--most-mib", std::to_string(job.most_mib).c_str(), nullptr);
    ::_exit(127);
  }
  int worst = 0, status = 0;
  while (::wait(&status) > 0) worst = std::max(worst, status);
  return worst == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Job job = parse(argc, argv);
  return job.rank >= 0 ? be_rank(job) : start_ranks(job);
}
