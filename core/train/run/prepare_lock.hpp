#pragma once

#include <filesystem>
#include <functional>

#include "core/observe/log.hpp"

namespace pipeline::train {

// Only one process at a time prepares data in a cache folder.
class PrepareLock {
 public:
  // Waits for it. Throws Error, PL_ERROR_CANCELLED when `cancelled` says so while another process has the
  // lock.
  PrepareLock(const std::filesystem::path& folder, observe::Log& log, const std::function<bool()>& cancelled);
  ~PrepareLock();
  PrepareLock(const PrepareLock&) = delete;
  PrepareLock& operator=(const PrepareLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace pipeline::train
