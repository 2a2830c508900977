// What this task uses of common/files, by its short names.
#pragma once

#include "plugins/tasks/common/files/cache_folder.hpp"
#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::summarization {

using files::Cancelled;
using files::DataError;
using files::FileLock;
using files::Hash128;
using files::hash128;
using files::Hasher128;
using files::mark_used;
using files::system_error;

}  // namespace pipeline::summarization
