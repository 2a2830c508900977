#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "backends/common/call.hpp"
#include "backends/gloo/mesh.hpp"

namespace pipeline::backends::gloo {
namespace {

constexpr size_t kChunk = size_t{2} << 20;      // bytes: one is added up while others are on their way
constexpr uint64_t kAhead = 3;                  // chunks under way
constexpr size_t kScratch = size_t{64} << 20;   // bytes at most, for the chunks of all ranks
constexpr size_t kSmallSum = size_t{16} << 10;  // bytes up to which every rank adds up everything
constexpr size_t kSmallBroadcast = size_t{64} << 10;

void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class Collective {
 public:
  Collective(Mesh& mesh, const Call& call, int32_t rank, int32_t world_size, std::vector<char>& scratch)
      : mesh_(mesh),
        call_(call),
        rank_(rank),
        world_size_(world_size),
        scratch_(scratch),
        width_(call.width()),
        step_(std::min(kChunk, kScratch / kAhead / static_cast<size_t>(world_size)) /
              std::max<size_t>(width_, 1)) {}

  // A reduce-scatter and an all-gather, chunk by chunk: while one is added up, later ones are on their way in
  // and earlier ones on their way out.
  void all_reduce() {
    if (call_.in.count * width_ <= kSmallSum) return all_reduce_small();
    even_shards(call_.in.count);
    std::deque<Mesh::Exchange> terms, sums;
    std::deque<uint32_t> tags;  // of the sums
    for (uint64_t i = 0; i < chunk_count_; ++i) {
      while (i + terms.size() < std::min(i + kAhead, chunk_count_)) {
        const uint64_t next = i + terms.size();
        terms.push_back(start_reduce(next));
        tags.push_back(mesh_.next_tag());
        sums.push_back(receive_sums(tags.back(), next));
      }
      terms.front().wait();
      terms.pop_front();
      reduce(i, at(call_.out, chunk(i).begin[static_cast<size_t>(rank_)]));
      sums.push_back(send_sum(tags.front(), i));
      tags.pop_front();
    }
    for (Mesh::Exchange& sum : sums) sum.wait();
  }

  void reduce_scatter() {
    shards(call_.send);
    std::deque<Mesh::Exchange> terms;
    for (uint64_t i = 0; i < chunk_count_; ++i) {
      while (i + terms.size() < std::min(i + kAhead, chunk_count_))
        terms.push_back(start_reduce(i + terms.size()));
      terms.front().wait();
      terms.pop_front();
      reduce(i, at(call_.out, std::min(i * step_, call_.out.count)));
    }
  }

  void all_gather() {
    shards(call_.send);
    const auto mine = static_cast<size_t>(rank_);
    copy(at(call_.out, begin_[mine]), call_.in.data, size_[mine] * width_);
    std::vector<Piece> receives, sends;
    for (const int32_t r : others()) {
      const auto from = static_cast<size_t>(r);
      receives.push_back({r, at(call_.out, begin_[from]), size_[from] * width_});
      sends.push_back({r, at(call_.out, begin_[mine]), size_[mine] * width_});
    }
    mesh_.exchange(receives, sends);
  }

  // A large broadcast: the root gives each rank a shard, and shards are gathered; no link carries all twice.
  void broadcast() {
    if (world_size_ == 2 || call_.in.count * width_ <= kSmallBroadcast) return star();
    even_shards(call_.in.count);
    step_ = size_[0];
    const Chunk c = chunk(0);
    std::vector<Piece> receives, sends;
    for (const int32_t r : others()) {
      const auto to = static_cast<size_t>(r);
      if (rank_ == call_.root) sends.push_back({r, at(call_.in, c.begin[to]), c.size[to] * width_});
    }
    const auto mine = static_cast<size_t>(rank_);
    if (rank_ != call_.root)
      receives.push_back({call_.root, at(call_.in, c.begin[mine]), c.size[mine] * width_});
    mesh_.exchange(receives, sends);

    receives.clear();
    sends.clear();
    for (const int32_t r : others()) {
      const auto from = static_cast<size_t>(r);
      if (rank_ != call_.root) receives.push_back({r, at(call_.in, c.begin[from]), c.size[from] * width_});
      if (r != call_.root) sends.push_back({r, at(call_.in, c.begin[mine]), c.size[mine] * width_});
    }
    mesh_.exchange(receives, sends);
  }

  void all_to_all() {
    uint64_t sent = 0, got = 0;
    std::vector<Piece> receives, sends;
    for (int32_t r = 0; r < world_size_; ++r) {
      const auto i = static_cast<size_t>(r);
      const Piece out{r, at(call_.in, sent), call_.send[i] * width_};
      const Piece in{r, at(call_.out, got), call_.receive[i] * width_};
      sent += call_.send[i];
      got += call_.receive[i];
      if (r == rank_) {
        copy(in.data, out.data, in.bytes);
      } else {
        receives.push_back(in);
        sends.push_back(out);
      }
    }
    mesh_.exchange(receives, sends);
  }

 private:
  // A chunk of each rank's shard, in elements of the whole.
  struct Chunk {
    std::vector<uint64_t> begin, size;
  };

  void shards(const std::vector<uint64_t>& counts) {
    uint64_t sum = 0;
    for (const uint64_t count : counts) {
      begin_.push_back(sum);
      size_.push_back(count);
      sum += count;
    }
    const uint64_t largest = *std::max_element(size_.begin(), size_.end());
    chunk_count_ = (largest + step_ - 1) / step_;
  }

  void even_shards(uint64_t total) {
    const auto ranks = static_cast<uint64_t>(world_size_);
    std::vector<uint64_t> counts;
    for (uint64_t r = 0; r < ranks; ++r) counts.push_back(total / ranks + (r < total % ranks ? 1 : 0));
    shards(counts);
  }

  Chunk chunk(uint64_t index) const {
    Chunk result;
    for (size_t r = 0; r < size_.size(); ++r) {
      const uint64_t from = std::min(index * step_, size_[r]);
      result.begin.push_back(begin_[r] + from);
      result.size.push_back(std::min(step_, size_[r] - from));
    }
    return result;
  }

  // The other ranks, beginning with the next one, so that not all ranks send to rank 0 first.
  std::vector<int32_t> others() const {
    std::vector<int32_t> ranks;
    for (int32_t i = 1; i < world_size_; ++i) ranks.push_back((rank_ + i) % world_size_);
    return ranks;
  }

  char* at(const pl_buffer& buffer, uint64_t element) const {
    return static_cast<char*>(buffer.data) + element * width_;
  }

  char* received(uint64_t chunk, int32_t from) const {
    const uint64_t slot = chunk % kAhead * static_cast<uint64_t>(world_size_) + static_cast<uint64_t>(from);
    return scratch_.data() + slot * step_ * width_;
  }

  // Sends every rank the terms of its chunk, and receives the others' terms of this rank's chunk.
  Mesh::Exchange start_reduce(uint64_t index) {
    scratch_.resize(std::max(scratch_.size(), kAhead * static_cast<size_t>(world_size_) * step_ * width_));
    const Chunk c = chunk(index);
    const size_t mine = c.size[static_cast<size_t>(rank_)] * width_;
    std::vector<Piece> receives, sends;
    for (const int32_t r : others()) {
      const auto to = static_cast<size_t>(r);
      receives.push_back({r, received(index, r), mine});
      sends.push_back({r, at(call_.in, c.begin[to]), c.size[to] * width_});
    }
    return mesh_.start(mesh_.next_tag(), receives, sends);
  }

  void reduce(uint64_t index, char* out) {
    const Chunk c = chunk(index);
    const auto mine = static_cast<size_t>(rank_);
    std::vector<const void*> terms;
    for (int32_t r = 0; r < world_size_; ++r)
      terms.push_back(r == rank_ ? at(call_.in, c.begin[mine]) : received(index, r));
    reduce_in_order(out, terms, c.size[mine], call_.in.dtype, call_.reduce);
  }

  // Receives each rank's sum of a chunk where it belongs. A sum arrives only after its rank has received this
  // rank's terms, so their memory is free by then.
  Mesh::Exchange receive_sums(uint32_t tag, uint64_t index) {
    const Chunk c = chunk(index);
    std::vector<Piece> receives;
    for (const int32_t r : others()) {
      const auto from = static_cast<size_t>(r);
      receives.push_back({r, at(call_.out, c.begin[from]), c.size[from] * width_});
    }
    return mesh_.start(tag, receives, {});
  }

  Mesh::Exchange send_sum(uint32_t tag, uint64_t index) {
    const Chunk c = chunk(index);
    const auto mine = static_cast<size_t>(rank_);
    std::vector<Piece> sends;
    for (const int32_t r : others())
      sends.push_back({r, at(call_.out, c.begin[mine]), c.size[mine] * width_});
    return mesh_.start(tag, {}, sends);
  }

  void all_reduce_small() {
    step_ = call_.in.count;
    scratch_.resize(std::max(scratch_.size(), static_cast<size_t>(world_size_) * step_ * width_));
    std::vector<Piece> receives, sends;
    for (const int32_t r : others()) {
      receives.push_back({r, received(0, r), step_ * width_});
      sends.push_back({r, call_.in.data, step_ * width_});
    }
    mesh_.exchange(receives, sends);
    std::vector<const void*> terms;
    for (int32_t r = 0; r < world_size_; ++r) terms.push_back(r == rank_ ? call_.in.data : received(0, r));
    reduce_in_order(call_.out.data, terms, step_, call_.in.dtype, call_.reduce);
  }

  void star() {
    std::vector<Piece> receives, sends;
    const size_t bytes = call_.in.count * width_;
    if (rank_ != call_.root) receives.push_back({call_.root, call_.in.data, bytes});
    for (const int32_t r : others()) {
      if (rank_ == call_.root) sends.push_back({r, call_.in.data, bytes});
    }
    mesh_.exchange(receives, sends);
  }

  Mesh& mesh_;
  const Call& call_;
  const int32_t rank_;
  const int32_t world_size_;
  std::vector<char>& scratch_;
  const size_t width_;  // bytes of an element
  uint64_t step_;       // elements of a chunk at most
  uint64_t chunk_count_ = 0;
  std::vector<uint64_t> begin_, size_;  // of the ranks' shards
};

}  // namespace

void run_collective(Mesh& mesh, const Call& call, int32_t rank, int32_t world_size,
                    std::vector<char>& scratch) {
  Collective collective(mesh, call, rank, world_size, scratch);
  switch (call.operation) {
    case Operation::kAllReduce:
      return collective.all_reduce();
    case Operation::kReduceScatter:
      return collective.reduce_scatter();
    case Operation::kAllGather:
      return collective.all_gather();
    case Operation::kBroadcast:
      return collective.broadcast();
    case Operation::kAllToAll:
      return collective.all_to_all();
    case Operation::kBarrier:
      return;
  }
}

}  // namespace pipeline::backends::gloo
