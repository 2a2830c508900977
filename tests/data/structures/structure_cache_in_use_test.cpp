// The cache file changed in place while a library has it mapped: what is read of it is what was parsed, or
// there is an error that says so.
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/data/structures/library_folder.hpp"

namespace pipeline::structures {
namespace {

class StructureCacheInUse : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i)
      folder_.write("p" + std::to_string(i) + ".pdb",
                    peptide(std::vector<std::string>(200, "ALA"), 'A', i + 1));
    library_.emplace(folder_.open());
    contents_ = contents_of(*library_);
    good_ = tests::read_all(folder_.cache_file());
  }

  void put(off_t at, const std::string& bytes) const {
    const int fd = ::open(folder_.cache_file().c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::pwrite(fd, bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
    ::close(fd);
  }
  std::string message(uint64_t structure) const {
    return tests::message_of<files::DataError>([&] { library_->structure(structure); });
  }
  void expect_refused(const std::string& what) const {
    for (uint64_t i = 0; i < library_->size(); ++i) {
      EXPECT_TRUE(message(i).starts_with(folder_.cache_file() + ": was changed while it is in use ("))
          << what << ": " << message(i);
      EXPECT_NE(message(i).find("remove it, and run again"), std::string::npos) << what;
    }
  }

  LibraryFolder folder_;
  std::optional<StructureLibrary> library_;
  std::string contents_, good_;
};

TEST_F(StructureCacheInUse, CutOffAnywhereIsRefusedAndDoesNotEndTheProcess) {
  for (const uint64_t size : {good_.size() - 1, good_.size() / 2, size_t{4096}, size_t{1}, size_t{0}}) {
    ASSERT_EQ(::truncate(folder_.cache_file().c_str(), static_cast<off_t>(size)), 0);
    expect_refused(std::to_string(size));
  }
  EXPECT_NE(message(0).find("(it has 0 bytes, and had at least " + std::to_string(good_.size()) + ")"),
            std::string::npos)
      << message(0);

  ASSERT_EQ(::truncate(folder_.cache_file().c_str(), static_cast<off_t>(good_.size())),
            0);  // long enough, but of zeros
  expect_refused("zeros");
  std::filesystem::remove(folder_.cache_file());
  EXPECT_EQ(contents_of(folder_.open()), contents_);
}

TEST_F(StructureCacheInUse, OverwrittenIsRefused) {
  put(0, std::string(good_.size(), '\x5a'));
  expect_refused("overwritten");
  put(0, good_);
  EXPECT_EQ(contents_of(*library_), contents_);  // the file is as it was
}

// Changed coordinates are noticed, too: nothing but the hash knows them from others.
TEST_F(StructureCacheInUse, AnyChangedByteOfAStructureIsRefusedAndTheOthersAreRead) {
  const stores::RecordStore cache(folder_.cache_file(), kStructures);
  const auto& record = *cache.find(library_->structure(1).key);
  for (size_t at = record.begin - sizeof(stores::RecordHeader); at < record.end(); at += 13) {
    put(static_cast<off_t>(at), {static_cast<char>(good_[at] ^ 1)});
    EXPECT_NE(message(1).find("a record of it is not the one that was written"), std::string::npos) << at;
    put(static_cast<off_t>(at), {good_[at]});
  }
  put(static_cast<off_t>(record.begin + 100), "x");
  EXPECT_EQ(message(0), "(nothing was thrown)");
  EXPECT_EQ(message(2), "(nothing was thrown)");
}

TEST_F(StructureCacheInUse, GrownReplacedOrRemovedItIsReadOn) {
  folder_.write("q.pdb", peptide({"TRP"}));
  EXPECT_EQ(folder_.open().size(), 4u);
  EXPECT_GT(std::filesystem::file_size(folder_.cache_file()), good_.size());
  EXPECT_EQ(contents_of(*library_), contents_);
  std::filesystem::rename(folder_.cache.write("other", "something else"), folder_.cache_file());
  EXPECT_EQ(contents_of(*library_), contents_);
  std::filesystem::remove(folder_.cache_file());
  EXPECT_EQ(contents_of(*library_), contents_);
}

}  // namespace
}  // namespace pipeline::structures
