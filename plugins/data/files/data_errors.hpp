// For tasks: what reading data throws, as the errors of the ABI, and what it tells.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/error.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "files/error.hpp"

namespace pipeline::files {

// Whose fault an errno is: the user's for data or a path; nobody's for a disk that is full or broken.
inline uint32_t error_code_of(int code) {
  switch (code) {
    case 0:
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
      return PL_ERROR_CONFIG;
    case ENOSPC:
    case EDQUOT:
      return PL_ERROR_NO_SPACE;
    default:
      return PL_ERROR_FAILED;
  }
}

// What `work` returns. Its errors leave as Error with the code that they ask for, Cancelled as
// PL_ERROR_CANCELLED.
template <class Work>
decltype(auto) with_data_errors(Work&& work) try {
  return std::forward<Work>(work)();
} catch (const DataError& error) {
  fail_with(error_code_of(error.code()), error.what());
} catch (const std::filesystem::filesystem_error& error) {
  const int code = error.code().value();
  fail_with(
      error_code_of(code), error.path1().string(), ": ", error.code().message(),
      code == ENOSPC || code == EDQUOT ? ": free some space there" : ": check the path and its permissions");
} catch (const Cancelled& error) {
  fail_with(PL_ERROR_CANCELLED, error.what());
}

// Hooks that tell the task's host what becomes of work, which progress calls `what`.
inline Hooks hooks_of(const Context& context, const std::string& what, unsigned threads) {
  return {.threads = std::max(1u, threads),
          .progress = [=](uint64_t done, uint64_t total) { context.progress(what, done, total); },
          .note = [=](const std::string& line) { context.info(line); },
          .cancelled = [=] { return context.cancelled(); }};
}

}  // namespace pipeline::files
