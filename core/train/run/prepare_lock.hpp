#pragma once

#include <filesystem>
#include <functional>

#include "core/base/descriptor.hpp"
#include "core/observe/log.hpp"

namespace pipeline::train {

// Only one process at a time prepares data in a cache folder: the one that has this lock. Waits for it.
// Throws Error, PL_ERROR_CANCELLED when `cancelled` says so while another process has it.
Descriptor prepare_lock(const std::filesystem::path& folder, observe::Log& log,
                        const std::function<bool()>& cancelled);

}  // namespace pipeline::train
