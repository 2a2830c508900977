// The memory that many samples take; a sanitizer's own would hide it.
#include <sys/resource.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "plugins/data/stores/sample_store.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::stores {
namespace {

uint64_t resident_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss);
}

TEST(SamplesMemory, DoesNotGrowWithTheirNumber) {
  constexpr SampleKind kKind{.name = "TESTFILE", .version = 1};
  const tests::FilesFolder folder;
  const std::string path = folder / "samples";
  {
    SampleWriter writer(path, kKind);
    const std::string text(400, 'x');
    for (int i = 0; i < 300'000; ++i) writer.append(text);
    writer.finish({1, 2}, "");
  }
  ASSERT_GT(std::filesystem::file_size(path), uint64_t{120} << 20);
  const uint64_t before = resident_kilobytes();
  const SampleStore store(path, kKind, {1, 2});
  for (uint64_t i = 0; i < store.size(); i += 7) ASSERT_EQ(store[i].payload().size(), 400u);
  EXPECT_LT(resident_kilobytes(), before + 8192);
}

}  // namespace
}  // namespace pipeline::stores
