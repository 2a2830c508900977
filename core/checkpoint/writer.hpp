#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/contents.hpp"
#include "core/checkpoint/store.hpp"

namespace pipeline::checkpoint {

struct Saved {
  uint64_t step = 0;
  std::string path;
  uint64_t bytes = 0;  // rank 0: of all ranks' files; elsewhere of this rank's
  double seconds = 0;
  std::vector<std::string> pruned;  // names of older checkpoints that were removed; rank 0
  std::string prune_problem;        // why some could not be removed; empty: all is well
};

// Writes a checkpoint into the store, or leaves the store as it was. All ranks of the group call it together;
// those that own no pieces pass an empty source. Throws pipeline::Error, PL_ERROR_NO_SPACE when the disk is
// full (seen before anything is written, where the file system can tell), after removing what it wrote. A
// checkpoint of the same step is replaced once the new one is complete.
Saved write(Store& store, const Contents& contents, const PieceSource& pieces, const Group& group = {});

}  // namespace pipeline::checkpoint
