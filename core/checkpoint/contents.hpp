#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/abi/pipeline.h"

namespace pipeline::checkpoint {

// How good the weights are: a figure from the evaluation after this very step. A non-finite one is kept but
// is never the best.
struct Metric {
  std::string name;  // figures of other names cannot be compared
  double value = 0;
  bool higher_is_better = false;
};

// What a checkpoint holds besides its tensors. The JSON texts are objects that only the core understands.
struct Contents {
  uint64_t step = 0;  // optimizer steps done; names the folder
  std::string train_state_json = "{}";
  std::string config_toml;  // the resolved config
  std::string identity_json = "{}";
  std::optional<Metric> metric;
  std::vector<std::string> droppable;  // parameters that a later stage may leave out
};

// A PieceSource calls the visitor once per piece, always in the same order. The source is called twice,
// from any thread; whatever it captures (the strategy's snapshot) lives until it is destroyed.
using PieceVisitor = std::function<void(const pl_piece& piece)>;
using PieceSource = std::function<void(const PieceVisitor& visit)>;

// The processes that write one checkpoint together. `worst` takes this rank's error code (0: no error) and
// returns the worst of all ranks (0: no error anywhere); it is also the barrier, and throws if a rank is
// lost. One process needs none.
struct Group {
  int rank = 0;
  int world_size = 1;
  std::function<uint32_t(uint32_t code)> worst;
};

}  // namespace pipeline::checkpoint
