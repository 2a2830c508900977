// Files of a model's folder, and what may stand in their place.
#include "plugins/data/files/regular_file.hpp"

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <filesystem>

#include "plugins/data/files/error.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::files {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

TEST(RegularFile, IsReadWhereItIsOne) {
  const tests::FilesFolder folder;
  const auto problem = [&](const std::string& name, uint64_t most = kMostSettings) {
    return tests::message_of<DataError>([&] { read_regular(folder / name, most); });
  };
  const std::string text = "a\0b"s + std::string(200'000, 'c');
  EXPECT_EQ(read_regular(folder.write("good", text), text.size()), text);
  EXPECT_EQ(read_regular(folder.write("empty", ""), 0), "");
  EXPECT_THAT(problem("good", text.size() - 1), HasSubstr("good: has more than 200002 bytes"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(problem("pipe"), folder / "pipe: is a pipe (FIFO), must be a regular file");
  std::filesystem::create_directory(folder / "folder");
  EXPECT_EQ(problem("folder"), folder / "folder: is a folder, must be a regular file");
  std::filesystem::create_symlink("/dev/zero", folder / "endless");
  EXPECT_EQ(problem("endless"), folder / "endless: is a device, must be a regular file");
  EXPECT_THAT(problem("none"), HasSubstr("none: cannot be read: No such file"));
  folder.write("pointer", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(problem("pointer"), HasSubstr("pointer: is a Git LFS pointer"));
}

}  // namespace
}  // namespace pipeline::files
