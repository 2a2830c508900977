#pragma once

#include <array>
#include <memory>

#include "plugins/tasks/protein/clusters/local_alignment.hpp"

namespace pipeline::protein {

// Scores of the best local alignments of one sequence with up to 16 others at once: each of those has a lane
// of the vector registers, so lanes never wait for each other (Rognes 2011, BMC Bioinformatics 12:221). The
// scores of align_locally, many times faster. One thread at a time may use an object.
class ScoreBatch {
 public:
  static constexpr size_t kLanes = 16;
  using Scores = std::array<int, kLanes>;

  ScoreBatch();
  ~ScoreBatch();
  ScoreBatch(const ScoreBatch&) = delete;
  ScoreBatch& operator=(const ScoreBatch&) = delete;

  // At most kLanes sequences, best of similar length: the work is that of the longest in every lane.
  void set_targets(std::span<const LetterView> targets);

  // Of `query` with each target; 0 in the lanes without one.
  Scores scores(LetterView query);

 private:
  template <typename Score>
  struct Lanes;
  std::unique_ptr<Lanes<int16_t>> narrow_;
  std::unique_ptr<Lanes<int32_t>> wide_;  // where 16 bits might not hold the scores
  bool use_wide_ = false;
};

}  // namespace pipeline::protein
