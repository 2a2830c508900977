// The plugin: its options, and the collectives in shared memory.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <pipeline/backend.hpp>

#include "backends/common/call.hpp"
#include "backends/common/queue.hpp"
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

constexpr size_t kLine = 64;  // shares of a slot begin on cache lines

bool for_each_rank(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter ||
         operation == Operation::kAllToAll;
}

uint64_t largest(const std::vector<uint64_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

uint64_t divided_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

// What a collective publishes and reads in each of its rounds: one call, cut by the size of the slots.
class Pieces {
 public:
  Pieces(const Call& call, int32_t rank, int32_t world_size, size_t slot_bytes)
      : call_(call), rank_(rank), world_size_(world_size), width_(std::max<size_t>(call.width(), 1)) {
    const size_t shares = for_each_rank(call.operation) ? static_cast<size_t>(world_size) : 1;
    share_ = slot_bytes / shares / kLine * kLine / width_;
    uint64_t needed = 0;
    switch (call.operation) {
      case Operation::kAllReduce:  // the sums of a round go out in the next one
        needed = divided_up(call.in.count, share_ * static_cast<uint64_t>(world_size)) + 1;
        break;
      case Operation::kBroadcast:
        needed = divided_up(call.in.count, share_);
        break;
      default:
        needed = divided_up(std::max(largest(call.send), largest(call.receive)), share_);
    }
    rounds_ = std::max<uint64_t>(needed, 1);
  }

  uint64_t rounds() const { return rounds_; }  // that this rank needs; at least one

  void write(uint64_t round, char* slot) const {
    switch (call_.operation) {
      case Operation::kAllReduce:
        return write_all_reduce(round, slot);
      case Operation::kReduceScatter:
      case Operation::kAllToAll:
        return write_to_each(call_.send, round, slot);
      case Operation::kAllGather: {
        const uint64_t done = std::min(round * share_, call_.in.count);
        return copy(slot, at(call_.in, done), std::min(share_, call_.in.count - done));
      }
      case Operation::kBroadcast: {
        const uint64_t done = std::min(round * share_, call_.in.count);
        if (rank_ == call_.root) copy(slot, at(call_.in, done), std::min(share_, call_.in.count - done));
        return;
      }
      case Operation::kBarrier:
        return;
    }
  }

  void read(uint64_t round, const Rounds& rounds) const {
    switch (call_.operation) {
      case Operation::kAllReduce:
        return read_all_reduce(round, rounds);
      case Operation::kReduceScatter:
        return read_reduce_scatter(round, rounds);
      case Operation::kAllGather:
        return read_all_gather(round, rounds);
      case Operation::kAllToAll:
        return read_all_to_all(round, rounds);
      case Operation::kBroadcast: {
        const uint64_t done = std::min(round * share_, call_.out.count);
        if (rank_ != call_.root)
          copy(at(call_.out, done), rounds.slot_of(call_.root), std::min(share_, call_.out.count - done));
        return;
      }
      case Operation::kBarrier:
        return;
    }
  }

 private:
  // Elements in a buffer.
  struct Range {
    uint64_t begin, size;
  };
  using Counts = std::vector<uint64_t>;

  // The part of a rank's shard whose turn it is, in a buffer of all shards.
  Range of_rank(const Counts& counts, int32_t rank, uint64_t round) const {
    const auto shard = counts.begin() + rank;
    const uint64_t done = std::min(round * share_, *shard);
    return {std::accumulate(counts.begin(), shard, done), std::min(share_, *shard - done)};
  }

  // The part that a rank adds up: neighbouring ones in a round, so that memory is passed through once.
  Range of_sum(int32_t rank, uint64_t round) const {
    const auto ranks = static_cast<uint64_t>(world_size_), r = static_cast<uint64_t>(rank);
    const uint64_t begin = std::min(round * share_ * ranks, call_.in.count);
    const uint64_t size = std::min(share_ * ranks, call_.in.count - begin);
    return {begin + size * r / ranks, size * (r + 1) / ranks - size * r / ranks};
  }

  char* at(const pl_buffer& buffer, uint64_t element) const {
    return static_cast<char*>(buffer.data) + element * width_;
  }

  // Bytes from the beginning of a slot to what is for, or from, `rank`.
  size_t place(int32_t rank) const { return static_cast<size_t>(rank) * share_ * width_; }

  void copy(void* to, const void* from, uint64_t count) const {
    if (count > 0 && to != from) std::memcpy(to, from, count * width_);
  }

  // The others' terms lie in their slots, at this rank's place. The sum goes to `out`, and to `copy_to` where
  // that is not null, block by block: memory is passed through once.
  void reduce(const Rounds& rounds, char* own, char* out, char* copy_to, uint64_t count) const {
    std::vector<const void*> terms(static_cast<size_t>(world_size_));
    for (uint64_t begin = 0; begin < count; begin += kReduceBlock) {
      const uint64_t size = std::min(kReduceBlock, count - begin);
      const size_t offset = begin * width_;
      for (int32_t r = 0; r < world_size_; ++r)
        terms[static_cast<size_t>(r)] = (r == rank_ ? own : rounds.slot_of(r) + place(rank_)) + offset;
      reduce_in_order(out + offset, terms, size, call_.in.dtype, call_.reduce);
      if (copy_to != nullptr) copy(copy_to + offset, out + offset, size);
    }
  }

  void write_to_each(const Counts& counts, uint64_t round, char* slot) const {
    for (int32_t r = 0; r < world_size_; ++r) {
      const Range piece = of_rank(counts, r, round);
      if (r != rank_) copy(slot + place(r), at(call_.in, piece.begin), piece.size);
    }
  }

  void write_all_reduce(uint64_t round, char* slot) const {
    for (int32_t r = 0; r < world_size_; ++r) {
      const Range part = of_sum(r, round);
      if (r != rank_) copy(slot + place(r), at(call_.in, part.begin), part.size);
    }
  }

  // The sum is put where the next round sends it from. That slot is free: the others have published this
  // round, so they are done with the one before, whose slot it was.
  void read_all_reduce(uint64_t round, const Rounds& rounds) const {
    const Range mine = of_sum(rank_, round);
    reduce(rounds, at(call_.in, mine.begin), at(call_.out, mine.begin), rounds.next_slot() + place(rank_),
           mine.size);
    if (round == 0) return;
    for (int32_t r = 0; r < world_size_; ++r) {
      const Range sum = of_sum(r, round - 1);
      if (r != rank_) copy(at(call_.out, sum.begin), rounds.slot_of(r) + place(r), sum.size);
    }
  }

  void read_reduce_scatter(uint64_t round, const Rounds& rounds) const {
    const Range mine = of_rank(call_.send, rank_, round);
    const uint64_t done = std::min(round * share_, call_.out.count);
    reduce(rounds, at(call_.in, mine.begin), at(call_.out, done), nullptr, mine.size);
  }

  void read_all_gather(uint64_t round, const Rounds& rounds) const {
    for (int32_t r = 0; r < world_size_; ++r) {
      const Range piece = of_rank(call_.send, r, round);
      const char* own = at(call_.in, std::min(round * share_, call_.in.count));
      copy(at(call_.out, piece.begin), r == rank_ ? own : rounds.slot_of(r), piece.size);
    }
  }

  void read_all_to_all(uint64_t round, const Rounds& rounds) const {
    for (int32_t r = 0; r < world_size_; ++r) {
      const Range piece = of_rank(call_.receive, r, round);
      const char* from =
          r == rank_ ? at(call_.in, of_rank(call_.send, r, round).begin) : rounds.slot_of(r) + place(rank_);
      copy(at(call_.out, piece.begin), from, piece.size);
    }
  }

  const Call& call_;
  const int32_t rank_;
  const int32_t world_size_;
  const size_t width_;  // bytes of an element
  uint64_t share_;      // elements of a slot for each rank, or for all
  uint64_t rounds_ = 1;
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

  void run(const Call& call, uint64_t sequence) override {
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

  void interrupt() noexcept override { rounds_.interrupt(); }
  std::vector<int32_t> absent() const override { return rounds_.behind(first_round_); }
  void leave(const std::string& why) noexcept override { rounds_.end_group(why); }
  const std::string& library() const override { return library_; }
  const std::string& mechanism() const override { return mechanism_; }

 private:
  void announce(const Call& call, uint64_t sequence, uint64_t rounds) {
    for (int32_t r = 0; r < world_size_; ++r)
      rounds_.announcement(rank_, r) = {signature_of(call, sequence, r), rounds};
  }

  // All ranks must make the same call. Returns the number of its rounds.
  uint64_t agree(uint64_t rounds) {
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

  const int32_t rank_;
  const int32_t world_size_;
  Rounds rounds_;
  uint64_t first_round_ = 0;  // of the call under way
  std::string library_ = "shm 1.0";
  std::string mechanism_;
};

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
