#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/rank_group.hpp"

namespace pipeline::strategies {

// The loss and the gradient's norm of a step, from what each rank has of them.
class StepFigures {
 public:
  // interleaved: micro-batch m is rank (m mod W)'s; otherwise each has a block. fixed_order: the sum of
  // squares must have the bits of one rank alone.
  // `ranks`: all ranks of the run, of which the first group's have all sums of squares.
  StepFigures(const Layout& layout, const Partition& partition, const RankGroup& ranks, bool interleaved,
              bool fixed_order)
      : layout_(layout),
        partition_(partition),
        ranks_(ranks),
        interleaved_(interleaved),
        in_chunks_(fixed_order || layout.losses() > 1) {}

  void begin() { losses_.clear(); }
  // `loss`: a scalar in double; undefined: this rank had no micro-batch.
  void add(at::Tensor loss);

  // Whether gather() needs the squares by chunk: the order is fixed, or chunks belong to several losses.
  bool in_chunks() const { return in_chunks_; }

  struct Totals {  // in double
    at::Tensor loss;
    at::Tensor squares;  // by loss
  };
  // `squares`: see Shard::squares(). All ranks must call it; one collective.
  Totals gather(const at::Tensor& squares) const;

 private:
  at::Tensor loss_of(const at::Tensor& rows) const;
  at::Tensor in_order_of_arena(const at::Tensor& rows) const;

  const Layout& layout_;
  const Partition& partition_;
  const RankGroup& ranks_;
  bool interleaved_;
  bool in_chunks_;
  std::vector<at::Tensor> losses_;  // of this rank's micro-batches
};

}  // namespace pipeline::strategies
