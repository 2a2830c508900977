// Collectives of 1 to 100 MiB of float32 between processes of this host: our gloo and shm backends, and
// c10d's own collectives over Gloo, in turns in one run. Prints GB/s (bytes of the whole buffer over the
// median time) and what shm is faster by.
//
//   bench_backends [--processes N] [--rounds N] [--most-mib N]
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <ATen/ops/from_blob.h>

#include "core/config/config.hpp"
#include "core/config/settings.hpp"
#include "core/plugins/host.hpp"
#include "scripts/bench/ranks.hpp"

namespace bench {
namespace {

using namespace pipeline;

struct Job {
  Place place;
  int rounds = 15;
  int most_mib = 100;
};

enum class Operation { all_reduce, reduce_scatter, all_gather };

class Competitor {
 public:
  virtual ~Competitor() = default;
  virtual std::string name() const = 0;
  // Runs one collective over `full`, of which `shard` is this rank's part (or becomes it), to its end.
  virtual void run(Operation operation, std::vector<float>& full, std::vector<float>& shard) = 0;
  virtual void barrier() = 0;
};

class Ours : public Competitor {
 public:
  Ours(const std::string& name, const Place& place, peers::Peers& peers)
      : name_(name),
        plugin_(plugins::Plugin::load(std::string(BACKENDS) + '/' + name + ".so")),
        config_(config::load({.file = "", .sets = {"task.plugin=none", "backend.plugin=" + name}})
                    .plugin("backend", plugin_.options())),
        context_(name),
        group_((plugins::give_exchange(context_, peers), plugin_), context_, &config_,
               open_args(place, name)) {}

  std::string name() const override { return name_; }
  void run(Operation operation, std::vector<float>& full, std::vector<float>& shard) override {
    const pl_buffer whole = plugins::host_buffer(full.data(), full.size());
    const pl_buffer part = plugins::host_buffer(shard.data(), shard.size());
    switch (operation) {
      case Operation::all_reduce:
        return group_.all_reduce(whole).wait();
      case Operation::reduce_scatter:
        return group_.reduce_scatter(whole, part).wait();
      case Operation::all_gather:
        return group_.all_gather(part, whole).wait();
    }
  }
  void barrier() override { group_.barrier().wait(); }

 private:
  std::string name_;
  const plugins::Plugin& plugin_;
  pl_config config_;
  pl_context context_;
  plugins::Communicator group_;
};

class C10d : public Competitor {
 public:
  explicit C10d(const Place& place) : group_(c10d_gloo(place).first) {}
  std::string name() const override { return "c10d"; }
  void run(Operation operation, std::vector<float>& full, std::vector<float>& shard) override {
    std::vector<at::Tensor> whole{tensor(full)}, part{tensor(shard)};
    switch (operation) {
      case Operation::all_reduce:
        group_->allreduce(whole)->wait();
        return;
      case Operation::reduce_scatter:
        group_->_reduce_scatter_base(part[0], whole[0])->wait();
        return;
      case Operation::all_gather:
        group_->_allgather_base(whole[0], part[0])->wait();
        return;
    }
  }
  void barrier() override { group_->barrier()->wait(); }

 private:
  static at::Tensor tensor(std::vector<float>& values) {
    return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat);
  }
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

double seconds_of(Competitor& competitor, Operation operation, std::vector<float>& full,
                  std::vector<float>& shard) {
  competitor.barrier();
  const auto begin = std::chrono::steady_clock::now();
  competitor.run(operation, full, shard);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void compare(const Job& job, std::vector<std::unique_ptr<Competitor>>& all, Operation operation,
             const char* name, int mib) {
  const std::size_t count = (static_cast<std::size_t>(mib) << 18) / static_cast<std::size_t>(job.place.ranks);
  std::vector<float> full(count * static_cast<std::size_t>(job.place.ranks), 0.0f), shard(count, 0.0f);
  std::vector<std::vector<double>> times(all.size());
  for (int round = -2; round < job.rounds; ++round) {  // two to warm up
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double seconds = seconds_of(*all[i], operation, full, shard);
      if (round >= 0) times[i].push_back(seconds);
    }
  }
  if (job.place.rank != 0) return;
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
  if (job.place.rank == 0) std::printf("barrier               ");
  for (auto& competitor : all) {
    std::vector<double> times;
    for (int round = 0; round < job.rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) competitor->barrier();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
                      kCalls);
    }
    if (job.place.rank == 0) std::printf("   %s %8.1f us", competitor->name().c_str(), 1e6 * median(times));
  }
  if (job.place.rank == 0) std::printf("\n");
}

int be_rank(const Job& job) {
  peers::Peers peers(world_of(job.place), {});
  std::vector<std::unique_ptr<Competitor>> all;
  all.push_back(std::make_unique<C10d>(job.place));
  all.push_back(std::make_unique<Ours>("gloo", job.place, peers));
  all.push_back(std::make_unique<Ours>("shm", job.place, peers));
  if (job.place.rank == 0) std::printf("%d processes, median of %d rounds\n", job.place.ranks, job.rounds);
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

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Job job;
  bench::parse(argc, argv, job.place, {{"--rounds", &job.rounds}, {"--most-mib", &job.most_mib}});
  return job.place.rank >= 0 ? bench::be_rank(job) : bench::start_ranks(argc, argv, job.place.ranks);
}
