#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/peers.hpp"

namespace pipeline::strategies {

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
  TensorExchange(std::shared_ptr<const Layout> layout, const Partition& partition, const Peers& peers,
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
  const Peers& peers_;
  std::vector<size_t> slots_;
  std::vector<int64_t> owners_;             // by slot of the layout; -1: no such tensor
  std::vector<std::vector<Piece>> pieces_;  // by rank
  std::vector<size_t> sent_;                // of mine(), what goes to others: by owner
};

}  // namespace pipeline::strategies
