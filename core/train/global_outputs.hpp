// What a model makes of all samples of a step, on every rank, for tasks whose loss of a sample depends on
// them (pl.global-outputs/1): computed in a forward pass of its own before the step is trained, and gathered
// in the order of the samples. So the loss is that of the global batch, however it is cut and distributed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/train/session/session.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {

// Which rows of the step's (rows, K) the micro-batches have: m has [begin(m), begin(m + 1)).
class RowsOfStep {
 public:
  // `samples`: of each micro-batch of the global batch; those that it lacks have none.
  RowsOfStep(std::span<const uint64_t> samples, uint64_t micro_batches);

  uint64_t begin(uint64_t micro_batch) const { return begins_[micro_batch]; }
  uint64_t total() const { return begins_.back(); }

  // The collectives that bring the rows together: for each, the rows of each rank, one rank's after the
  // other's. Where each rank has a block of micro-batches one will do; where they take turns, one a turn.
  using Turn = std::vector<std::pair<uint64_t, uint64_t>>;
  std::vector<Turn> turns(uint64_t world_size, uint32_t micro_batch_order) const;

 private:
  std::vector<uint64_t> begins_;
};

class GlobalOutputs {
 public:
  // Whether a step needs the outputs; `micro_batches`: those of all ranks.
  static bool are_wanted(Session& session, uint64_t micro_batches);

  // `batches` are this rank's, empty ones included, and `places` say which they are. `any_batch` loads one of
  // the step that is not empty, for a rank that has none, and says where it is. [collective]
  GlobalOutputs(Session& session, std::span<const plugins::Batch> batches,
                std::span<const MicroBatchPlace> places, const RowsOfStep& rows,
                const std::function<std::pair<plugins::Batch, MicroBatchPlace>()>& any_batch);

  // All outputs, and where in them a micro-batch begins: what its training needs.
  const pl_tensor& all() const { return all_; }
  uint64_t first_row(uint64_t micro_batch) const { return rows_.begin(micro_batch); }

 private:
  void compute(const plugins::Batch& batch, MicroBatchPlace place);
  void gather();

  Session& session_;
  const RowsOfStep rows_;
  pl_tensor all_{};
};

}  // namespace pipeline::train
