// What went wrong with data or a disk, as the error that leaves a task.
#include "plugins/data/files/data_errors.hpp"

#include <gtest/gtest.h>

namespace pipeline::files {
namespace {

// The code and the message of what `work` throws.
template <class Work>
std::pair<uint32_t, std::string> error_of(Work&& work) {
  try {
    with_data_errors(work);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

TEST(DataErrors, HaveTheCodeOfTheirCause) {
  for (const auto& [cause, code] : {std::pair(0, PL_ERROR_CONFIG),
                                    {ENOENT, PL_ERROR_CONFIG},
                                    {EACCES, PL_ERROR_CONFIG},
                                    {ENOSPC, PL_ERROR_NO_SPACE},
                                    {EDQUOT, PL_ERROR_NO_SPACE},
                                    {EIO, PL_ERROR_FAILED},
                                    {EFBIG, PL_ERROR_FAILED},
                                    {EMFILE, PL_ERROR_FAILED}}) {
    const std::pair expected(code, std::string("x.tokens: no"));
    EXPECT_EQ(error_of([cause = cause]() -> int { throw DataError("x.tokens: no", cause); }), expected)
        << cause;
  }
  EXPECT_EQ(error_of([] { throw Cancelled(); }).first, PL_ERROR_CANCELLED);
  EXPECT_EQ(with_data_errors([] { return 7; }), 7);
}

TEST(DataErrors, OfTheLibraryAreSaidInItsUsersWords) {
  const auto fail = [](int code) {
    return error_of([&] {
      throw std::filesystem::filesystem_error("cannot rename", "cache/a", "cache/b",
                                              {code, std::generic_category()});
    });
  };
  EXPECT_EQ(fail(ENOSPC), std::pair(PL_ERROR_NO_SPACE,
                                    std::string("cache/a: No space left on device: free some space there")));
  EXPECT_EQ(fail(ENOTDIR),
            std::pair(PL_ERROR_CONFIG,
                      std::string("cache/a: Not a directory: check the path and its permissions")));
}

}  // namespace
}  // namespace pipeline::files
