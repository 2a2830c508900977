#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/abi/pipeline.h"

namespace pipeline::checkpoint {

// How good the weights are: a figure of the evaluation after this very step. One that is not finite is kept
// but never is the best.
struct Metric {
  std::string name;  // figures of other names cannot be compared
  double value = 0;
  bool higher_is_better = false;
};

// What a checkpoint says besides its tensors. The JSON texts are objects that only the core understands.
struct Contents {
  uint64_t step = 0;  // optimizer steps done; names the folder
  std::string train_state_json = "{}";
  std::string config_toml;  // the resolved config
  std::string identity_json = "{}";
  std::optional<Metric> metric;
  std::vector<std::string> droppable;  // parameters that a later stage may leave out
};

// Calls the visitor once per piece, always in the same order. It is called twice, from any thread; whatever
// it captures (the strategy's snapshot) lives until it is destroyed.
using PieceVisitor = std::function<void(const pl_piece& piece)>;
using PieceSource = std::function<void(const PieceVisitor& visit)>;

// The processes that write one checkpoint together. `worst` takes this rank's error code (0: it is well) and
// gives every rank the worst one of all (0: all are well); it is at the same time the barrier, and throws
// when a rank is lost. One process needs none.
struct Group {
  int rank = 0;
  int world_size = 1;
  std::function<uint32_t(uint32_t code)> worst;
};

}  // namespace pipeline::checkpoint
