// Files of records: what is found in one is what was written, whatever happens to the file.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/stores/record_store.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::stores {
namespace {

constexpr Kind kKind{.name = "TESTFILE", .version = 1, .remedy = "they are made again"};

class Records : public ::testing::Test {
 protected:
  RecordStore open() const { return {path_, kKind}; }
  void append(uint64_t key, std::string_view payload) const {
    const RecordStore store = open();
    RecordWriter writer(store, kKind);
    writer.append(make_record({key, 0}, payload));
  }
  // The payload of a whole record; "-" if there is none.
  static std::string held(const RecordStore& store, uint64_t key) {
    const Record* record = store.find({key, 0});
    return record != nullptr && store.is_whole(*record) ? std::string(store.payload(*record)) : "-";
  }
  std::string bytes() const { return tests::read_all(path_); }
  void put(const std::string& content) const { folder_.write("records", content); }

  tests::FilesFolder folder_;
  std::string path_ = folder_ / "records";
};

TEST_F(Records, AreFoundByTheirKeysAndTheLaterOfTwoCounts) {
  EXPECT_FALSE(open().is_there());
  append(1, "one");
  append(2, "");
  append(3, std::string(100'000, 'x'));
  const RecordStore before = open();
  append(1, "other");
  const RecordStore after = open();
  EXPECT_EQ(held(before, 1), "one");
  EXPECT_EQ(held(after, 1), "other");
  EXPECT_EQ(held(after, 2), "");
  EXPECT_EQ(held(after, 3), std::string(100'000, 'x'));
  EXPECT_EQ(after.find({4, 0}), nullptr);
  EXPECT_EQ(after.records().size(), 3u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(after.payload(*after.find({3, 0})).data()) % kAlignment, 0u);
  EXPECT_EQ(after.problem(), "");
}

TEST_F(Records, AChangedByteLosesItsRecordAlone) {
  for (uint64_t key = 0; key < 3; ++key) append(key, "payload " + std::to_string(key));
  const std::string good = bytes();
  for (size_t at = sizeof(FileHeader); at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    put(bad);
    const RecordStore store = open();
    int whole = 0;
    for (uint64_t key = 0; key < 3; ++key) {
      const std::string payload = held(store, key);
      EXPECT_TRUE(payload == "-" || payload == "payload " + std::to_string(key)) << at;
      whole += payload == "-" ? 0 : 1;
    }
    EXPECT_EQ(whole, 2) << at;
  }
}

TEST_F(Records, ATailThatIsCutOffIsCutBackByTheNextWriter) {
  append(1, "one");
  const std::string first = bytes();
  append(2, "two");
  const std::string good = bytes();
  for (size_t size = first.size(); size < good.size(); ++size) {
    put(good.substr(0, size));
    EXPECT_EQ(open().problem().empty(), size == first.size()) << size;
    append(2, "two");
    EXPECT_EQ(bytes(), good) << size;
  }
}

TEST_F(Records, ThatWereChangedInPlaceWhileInUseAreNoticed) {
  append(1, "one");
  const RecordStore store = open();
  const Record& record = *store.find({1, 0});
  const std::string good = bytes();
  EXPECT_NO_THROW(store.check(record));
  std::filesystem::resize_file(path_, good.size() - 1);
  EXPECT_THROW(store.check(record), files::DataError);
  std::filesystem::resize_file(path_, good.size());
  EXPECT_NO_THROW(store.check(record));
  std::filesystem::remove(path_);  // whoever has it open keeps it
  put(std::string(good.size(), 'x'));
  EXPECT_NO_THROW(store.check(record));
}

// Bytes of the file that count as this process's memory.
uint64_t resident(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) ours = true;
    if (ours && line.starts_with("Rss:")) return std::stoull(line.substr(4)) * 1024;
  }
  return UINT64_MAX;
}

TEST_F(Records, OfALargeFileThatIsReadAllTheTimePartIsInMemory) {
  constexpr uint64_t kCount = 48, kBytes = uint64_t{1} << 20;
  {
    const RecordStore store = open();
    RecordWriter writer(store, kKind);
    for (uint64_t key = 0; key < kCount; ++key)
      writer.append(make_record({key, 0}, std::string(kBytes, static_cast<char>('a' + key % 20))));
  }
  const RecordStore store = open();
  uint64_t most = 0;
  for (uint64_t key = 0; key < kCount; ++key) {
    store.check(*store.find({key, 0}));
    most = std::max(most, resident(path_));
  }
  EXPECT_GT(most, 16 * kBytes);
  EXPECT_LT(most, 36 * kBytes);
  EXPECT_EQ(held(store, 0), std::string(kBytes, 'a'));
}

TEST_F(Records, OfALargeFileOfSmallOnesThatAreReadAnywherePartIsInMemory) {
  constexpr uint64_t kCount = 12'000, kBytes = 4'000;
  {
    const RecordStore store = open();
    RecordWriter writer(store, kKind);
    for (uint64_t key = 0; key < kCount; ++key)
      writer.append(make_record({key, 0}, std::string(kBytes, 'x')));
  }
  const RecordStore store = open();
  uint64_t most = 0;
  for (uint64_t i = 0; i < kCount / 4; ++i) {
    store.check(*store.find({i * 7'919 % kCount, 0}));
    if (i % 64 == 0) most = std::max(most, resident(path_));
  }
  EXPECT_LT(most, uint64_t{40} << 20);
}

TEST_F(Records, OfAnotherKindOrVersionAreNeverMisread) {
  append(1, "one");
  for (const Kind& other : {Kind{"TESTFILE", 2, "again"}, Kind{"OTHER", 1, "again"}}) {
    const RecordStore store(path_, other);
    EXPECT_FALSE(store.is_ours());
    EXPECT_EQ(store.find({1, 0}), nullptr);
    EXPECT_EQ(store.problem(), path_ + ": of another version or kind, or its start is damaged: again");
    bool problem = false;
    EXPECT_FALSE(load(path_, other, {1, 0}, problem));
    EXPECT_TRUE(problem);
  }
}

TEST_F(Records, ThatNobodyUsesGoWhenTheFileIsWrittenAnew) {
  append(1, std::string(2'000'000, 'a'));
  append(2, "small");
  RecordStore store = open();
  EXPECT_FALSE(is_mostly_other_than(store, {{1, 0}}));
  EXPECT_TRUE(is_mostly_other_than(store, {{2, 0}}));
  const RecordStore before = open();
  keep_only(store, kKind, {{2, 0}});
  EXPECT_LT(bytes().size(), 1000u);
  EXPECT_EQ(held(store, 2), "small");
  EXPECT_EQ(store.find({1, 0}), nullptr);
  EXPECT_EQ(held(before, 1).size(), 2'000'000u);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
}

TEST_F(Records, OfTwoProcessesAtOnceAreAllThere) {
  constexpr uint64_t kEach = 200;
  std::vector<pid_t> children;
  for (uint64_t process = 0; process < 2; ++process) {
    children.push_back(tests::in_child([&] {
      for (uint64_t i = 0; i < kEach; ++i) {
        const files::FileLock lock(folder_ / "lock", nullptr, nullptr);
        append(process * kEach + i, std::string(i, static_cast<char>('a' + process)));
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(tests::status_of(child), 0);
  const RecordStore store = open();
  EXPECT_EQ(store.problem(), "");
  for (uint64_t i = 0; i < kEach; ++i) {
    EXPECT_EQ(held(store, i), std::string(i, 'a'));
    EXPECT_EQ(held(store, kEach + i), std::string(i, 'b'));
  }
}

// A limit on the size of files stands for a full disk.
TEST_F(Records, ThatDoNotFitOnTheDiskLeaveNothing) {
  append(1, "one");
  const std::string good = bytes();
  const pid_t child = tests::in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string large(5000, 'x');
    int failures = 0;
    for (const std::string& message :
         {tests::message_of<files::DataError>([&] { append(2, large); }),
          tests::message_of<files::DataError>([&] { save(path_, kKind, {}, large); })})
      failures += message.find("check the free space") != std::string::npos ? 1 : 0;
    return failures;
  });
  EXPECT_EQ(tests::status_of(child), 2);
  EXPECT_EQ(bytes(), good);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
}

TEST_F(Records, OneCanBeAFileOfItsOwn) {
  bool problem = true;
  EXPECT_FALSE(load(path_, kKind, {1, 2}, problem));
  EXPECT_FALSE(problem);
  save(path_, kKind, {1, 2}, "held");
  save(path_, kKind, {1, 2}, "replaced");
  EXPECT_EQ(load(path_, kKind, {1, 2}, problem), "replaced");
  EXPECT_FALSE(problem);
  EXPECT_FALSE(load(path_, kKind, {1, 3}, problem));
  EXPECT_TRUE(problem);
}

TEST_F(Records, APipeInPlaceOfAFileIsNamed) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(tests::message_of<files::DataError>([&] { open(); }),
            path_ + ": is a pipe (FIFO), must be a regular file: remove it: it is built again");
  ASSERT_EQ(::mkfifo((path_ + ".part").c_str(), 0600), 0);
  EXPECT_EQ(tests::message_of<files::DataError>([&] { RecordWriter(path_, kKind); }),
            path_ + ".part: is a pipe (FIFO), must be a regular file: remove it");
}

}  // namespace
}  // namespace pipeline::stores
