// How ranks on several hosts, or under another launcher, get the secret of their run.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/world.hpp"

namespace pipeline::launch {

// A small file next to the run's folder, shared by the ranks and readable only by its owner. The first rank
// that needs it creates it; rank 0 removes it with its RunSecret, once the ranks have met. If rank 0 was
// killed before that, the same run's next start uses the file, and another run's removes it a day later.
class RunSecret {
 public:
  // Sets world.secret if the environment has none; `note()` says why it is still empty. Throws Error
  // (PL_ERROR_CONFIG) if the file might belong to another user.
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
