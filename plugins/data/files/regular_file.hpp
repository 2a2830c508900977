#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipeline::files {

// Why nothing can be read at a path that a configuration names, where `what` is expected. Empty: something is
// there.
std::string path_problem(const std::filesystem::path& path, std::string_view what);

// open(2) of a regular file, or of a link to one. Where something else has the name, such as a pipe, which
// would hold us up for good, a DataError says what it is and what to do (`remedy`, a clause). With O_TRUNC it
// may be a device. -1, and errno says why, where nothing can be opened.
int open_regular(const std::string& path, int flags, std::string_view remedy = {});

// All of a file that a model's folder or a cache has, of at most so many bytes. Throws DataError, also for
// what stands in place of such a file (core/base/foreign.hpp); its code is errno where nothing can be opened
// or read.
std::string read_regular(const std::string& path, uint64_t most_bytes);

// The most bytes of a model folder's files: of settings; of a tokenizer's tokens, some 30 MB where they are
// many.
inline constexpr uint64_t kMostSettings = 4 << 20, kMostTokens = 256 << 20;

}  // namespace pipeline::files
