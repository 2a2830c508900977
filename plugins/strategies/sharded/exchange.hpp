#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/rank_group.hpp"

namespace pipeline::strategies {

// Deals buckets of gradients out: each rank gets its part from all. All to all and not reduce-scatter, since
// then the sum is made here, in float32 and in an order that is known, and costs no more to send.
//
// It holds up to kInFlight buckets, each with what is sent and what is received: (W - 1) / W of a bucket each
// in the dtype that is sent, and this rank's own part in float32.
class Exchange {
 public:
  static constexpr size_t kInFlight = 3;

  using Gradients = std::vector<at::Tensor>;  // by slot, padded; undefined: zero
  // This rank's part of a bucket from every rank, by rank; the tensors are borrowed for the call.
  using Deliver = std::function<void(size_t bucket, const std::vector<at::Tensor>& parts)>;

  // `wire`: the dtype that is sent.
  Exchange(std::shared_ptr<const Layout> layout, const Partition& partition, const RankGroup& ranks,
           at::ScalarType wire, Deliver deliver);

  // Whether start() would have to wait.
  bool is_full() const;
  // Copies the bucket out of `gradients` and sends it. Waits for the oldest one where too many are under way.
  void start(size_t bucket, const Gradients& gradients);
  // Waits for all; delivers in the order in which they were started. Gives the buffers back.
  void finish();
  // Forgets what is under way.
  void drop();

  uint64_t bytes() const;  // held at most

 private:
  struct Transfer {
    size_t bucket = 0;
    at::Tensor own, send, receive;  // of the longest bucket
    RankGroup::Pending pending;     // goes first
  };

  void finish_oldest();
  void fill(const at::Tensor& to, Range range, const Gradients& gradients) const;

  std::shared_ptr<const Layout> layout_;
  const Partition& partition_;
  const RankGroup& ranks_;
  at::ScalarType wire_;
  Deliver deliver_;
  std::deque<std::unique_ptr<Transfer>> under_way_;
  std::vector<std::unique_ptr<Transfer>> free_;
};

// Tensors that an update rule must see whole, though each lies in pieces with several ranks. Each tensor has
// one owner, to which the others send their pieces and which sends them back transformed; owners have about
// the same work. A rank holds the tensors that it owns, no more. [collective]
class TensorExchange {
 public:
  // A run of a tensor that one rank has.
  struct Piece {
    size_t slot;  // in the layout
    size_t bucket;
    Range range;  // of the arena
  };

  // `slots`: of the tensors, which must be matrices.
  TensorExchange(std::shared_ptr<const Layout> layout, const Partition& partition, const RankGroup& ranks,
                 std::vector<size_t> slots);

  // This rank's pieces, in the order in which transform() takes them.
  const std::vector<Piece>& mine() const { return pieces_[static_cast<size_t>(partition_.rank())]; }

  // Replaces the values of mine() by those of the transformed tensors. f: changes a tensor, which has its
  // shape.
  using Transform = std::function<void(const Slot& slot, const at::Tensor& tensor)>;
  void transform(std::vector<at::Tensor>& values, const Transform& f) const;

 private:
  bool is_owner(size_t slot, int64_t rank) const { return owners_[slot] == rank; }
  // Elements that this rank sends to each owner, and that each rank sends to this one; none to itself.
  std::vector<uint64_t> counts_to_owners() const;
  std::vector<uint64_t> counts_from_ranks() const;
  void choose_owners();

  std::shared_ptr<const Layout> layout_;
  const Partition& partition_;
  const RankGroup& ranks_;
  std::vector<size_t> slots_;
  std::vector<int64_t> owners_;             // by slot of the layout; -1: no such tensor
  std::vector<std::vector<Piece>> pieces_;  // by rank
  std::vector<size_t> sent_;                // of mine(), what goes to others: by owner
};

}  // namespace pipeline::strategies
