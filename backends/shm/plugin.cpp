// The plugin: its options, and the collectives in shared memory.
#include <algorithm>
#include <string>
#include <vector>

#include <pipeline/backend.hpp>

#include "backends/common/queued_backend.hpp"
#include "backends/common/signature.hpp"
#include "backends/shm/pieces.hpp"
#include "backends/shm/rounds.hpp"

namespace pipeline::backends::shm {
namespace {

struct Config {
  int64_t buffer_kib = 512;
  void describe(Options& o) {
    o("buffer_kib", buffer_kib, "size of a shared slot; each process has two")
        .min(64)
        .max(65536)
        .unit("KiB")
        .may_change();
  }
};

// A rank copies what others need into its slot, and they add it up right from there, each for its own part
// and in the order of the ranks: every rank gets the same bits, and the same ones in every run.
class ShmTransport : public Transport {
 public:
  // Blocks until all ranks are there.
  ShmTransport(const Context& context, const pl_backend_open_args& args, size_t slot_bytes)
      : rank_(args.rank),
        world_size_(args.world_size),
        rounds_(context, std::string(view(args.group)), rank_, world_size_, slot_bytes),
        mechanism_(concat("shared memory of this host, ",
                          (static_cast<size_t>(world_size_) * kSlots * slot_bytes) >> 10, " KiB")) {}

  void run(const Call& call, uint64_t sequence) override;
  void interrupt() noexcept override { rounds_.interrupt(); }
  std::vector<int32_t> absent() const override { return rounds_.behind(first_round_); }
  void leave(const std::string& why) noexcept override { rounds_.end_group(why); }
  const std::string& library() const override { return library_; }
  const std::string& mechanism() const override { return mechanism_; }

 private:
  void announce(const Call& call, uint64_t sequence, uint64_t rounds);
  uint64_t agree(uint64_t rounds);

  const int32_t rank_;
  const int32_t world_size_;
  Rounds rounds_;
  uint64_t first_round_ = 0;  // of the call under way
  std::string library_ = "shm 1.0";
  std::string mechanism_;
};

void ShmTransport::run(const Call& call, uint64_t sequence) {
  const Pieces pieces(call, rank_, world_size_, rounds_.slot_bytes());
  first_round_ = rounds_.round() + 1;
  uint64_t count = 1;  // until all have said how many they need
  for (uint64_t round = 0; round < count; ++round) {
    char* slot = rounds_.begin();
    if (round == 0) announce(call, sequence, pieces.rounds());
    pieces.write(round, slot);
    rounds_.publish();
    rounds_.wait_for_others();
    if (round == 0) count = agree(pieces.rounds());
    pieces.read(round, rounds_);
    rounds_.end();
  }
}

void ShmTransport::announce(const Call& call, uint64_t sequence, uint64_t rounds) {
  for (int32_t r = 0; r < world_size_; ++r)
    rounds_.announcement(rank_, r) = {signature_of(call, sequence, r), rounds};
}

// All ranks must make the same call. Returns the number of its rounds.
uint64_t ShmTransport::agree(uint64_t rounds) {
  for (int32_t r = 0; r < world_size_; ++r) {
    const Announcement& theirs = rounds_.announcement(r, rank_);
    if (r != rank_) {
      if (const auto differs =
              difference(rounds_.announcement(rank_, r).signature, rank_, theirs.signature, r))
        fail(*differs);
    }
    rounds = std::max(rounds, theirs.rounds);
  }
  return rounds;
}

class Shm : public QueuedBackend<Config> {
 public:
  explicit Shm(const Setup& setup) : QueuedBackend(setup, connect(setup)) {}
  static constexpr bool kHasGroups = true;

 private:
  static std::unique_ptr<Transport> connect(const Setup& setup) {
    const pl_backend_open_args& args = setup.args;
    check_open_args(args, "use nccl, or train on the CPU");
    if (args.local_world_size != args.world_size) {
      fail_with(PL_ERROR_UNSUPPORTED, "open: it works for processes of one host alone, and of this group's ",
                args.world_size, " ranks ", args.local_world_size, " are on this host: use gloo");
    }
    return std::make_unique<ShmTransport>(setup.context, args,
                                          static_cast<size_t>(setup.config.buffer_kib) << 10);
  }
};

}  // namespace
}  // namespace pipeline::backends::shm

PIPELINE_BACKEND(pipeline::backends::shm::Shm, "shm", "1.0.0",
                 "Host memory within one host, through shared memory")
