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
  StepFigures(const Partition& partition, const RankGroup& ranks, bool interleaved, bool fixed_order)
      : partition_(partition), ranks_(ranks), interleaved_(interleaved), fixed_order_(fixed_order) {}

  void begin() { losses_.clear(); }
  // `loss`: a scalar in double; undefined: this rank had no micro-batch.
  void add(at::Tensor loss);

  struct Totals {  // scalars in double
    at::Tensor loss;
    at::Tensor sum_of_squares;
  };
  // `squares`: see Shard::squares(). All ranks must call it; one collective.
  Totals gather(const at::Tensor& squares) const;

 private:
  at::Tensor loss_of(const at::Tensor& rows) const;
  at::Tensor in_order_of_arena(const at::Tensor& rows) const;

  const Partition& partition_;
  const RankGroup& ranks_;
  bool interleaved_;
  bool fixed_order_;
  std::vector<at::Tensor> losses_;  // of this rank's micro-batches
};

}  // namespace pipeline::strategies
