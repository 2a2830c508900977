// Where ranks on several hosts, or under a launcher that is not ours, get the secret of their run from.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/world.hpp"

namespace pipeline::launch {

// A small file beside the run's folder, which the ranks share and only its owner may read. The first rank
// that needs it makes it; rank 0 removes it with its RunSecret, when the ranks have met. What a rank 0 that
// was killed before that has left is used by the same run's next start, and removed by another's a day later.
class RunSecret {
 public:
  // Fills in world.secret where the environment has given none; `note()` says why it is still empty. Throws
  // Error (PL_ERROR_CONFIG) where the file could be somebody else's.
  RunSecret(World& world, const std::filesystem::path& run_dir);
  ~RunSecret();
  RunSecret(const RunSecret&) = delete;
  RunSecret& operator=(const RunSecret&) = delete;

  const std::string& note() const { return note_; }

 private:
  std::filesystem::path file_;  // to be removed
  std::string note_;
};

}  // namespace pipeline::launch
