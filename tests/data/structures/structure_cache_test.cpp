// The cache file damaged by hand: what is found in it is right, and the rest is parsed again.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "tests/data/structures/library_folder.hpp"

namespace pipeline::structures {
namespace {

std::set<std::string> keys_in(const std::string& path) {
  const stores::RecordStore cache(path, kStructures);
  std::set<std::string> keys;
  for (const auto& record : cache.records())
    if (StoredFile::of(cache, record)) keys.insert(record.key.hex());
  return keys;
}

class StructureCacheDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("a.pdb", peptide({"ALA", "GLY"}));
    folder_.write("b.pdb", peptide({"SER", "TRP", "TYR"}) + peptide({"GLY"}, 'B'));
    folder_.write("bad.pdb", "no atoms");
    folder_.write("c.pdb", peptide({"LYS"}));
    const auto library = folder_.open();
    contents_ = contents_of(library);
    fingerprint_ = library.fingerprint();
    good_ = tests::read_all(folder_.cache_file());
  }

  void put(const std::string& bytes) const {
    folder_.cache.write(std::filesystem::path(folder_.cache_file()).filename().string(), bytes);
  }

  // Opens with these bytes as the cache; what comes out must be the same as from a fresh parse.
  LibraryCounts open_with(const std::string& bytes, const std::string& what) {
    put(bytes);
    const auto library = folder_.open();
    EXPECT_EQ(contents_of(library), contents_) << what;
    EXPECT_EQ(library.fingerprint(), fingerprint_) << what;
    EXPECT_EQ(library.unusable().size(), 1u) << what;
    EXPECT_EQ(library.unusable()[0].text, "has no atoms: no ATOM or HETATM records") << what;
    return library.counts();
  }

  LibraryFolder folder_;
  std::string contents_, good_;
  files::Hash128 fingerprint_;
};

TEST_F(StructureCacheDamage, HoldsEveryFilesResiduesOrReason) {
  EXPECT_EQ(contents_, "a:AG b:SWY/G c:K");
  EXPECT_EQ(open_with(good_, "").parsed, 0u);
  EXPECT_EQ(tests::read_all(folder_.cache_file()), good_);
}

// The library is opened for a part of the places only: it waits for the disk each time.
TEST_F(StructureCacheDamage, AnyChangedByteIsNoticedAndTheFileParsedAgain) {
  const auto keys = keys_in(folder_.cache_file());
  ASSERT_EQ(keys.size(), 4u);
  for (size_t at = 0; at < good_.size(); ++at) {
    std::string bad = good_;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    put(bad);
    const auto left = keys_in(folder_.cache_file());
    EXPECT_GE(left.size(), at < sizeof(stores::FileHeader) ? 0u : 3u) << at;
    EXPECT_TRUE(std::includes(keys.begin(), keys.end(), left.begin(), left.end())) << at;
    if (at % 29 != 0) continue;
    EXPECT_EQ(open_with(bad, "byte " + std::to_string(at)).parsed, 4 - left.size()) << at;
  }
}

TEST_F(StructureCacheDamage, AnyCutIsNoticedAndOnlyWhatIsMissingParsedAgain) {
  size_t before = 0;
  for (size_t size = 0; size <= good_.size(); ++size) {
    put(good_.substr(0, size));
    const size_t left = keys_in(folder_.cache_file()).size();
    EXPECT_GE(left, before) << size;
    before = left;
    if (size % 29 != 0) continue;
    EXPECT_EQ(open_with(good_.substr(0, size), "cut to " + std::to_string(size)).parsed, 4 - left);
    EXPECT_EQ(tests::read_all(folder_.cache_file()), good_) << size;
  }
  EXPECT_EQ(before, 4u);
}

TEST_F(StructureCacheDamage, DamageIsSaidAndMendedOnce) {
  std::string bad = good_;
  bad[sizeof(stores::FileHeader) + sizeof(stores::RecordHeader) + 20] ^= 1;
  EXPECT_EQ(open_with(bad, "").parsed, 1u);
  ASSERT_EQ(folder_.notes.size(), 1u);
  EXPECT_NE(folder_.notes[0].find("damaged in 1 place"), std::string::npos) << folder_.notes[0];
  EXPECT_EQ(contents_of(folder_.open()), contents_);
  EXPECT_TRUE(folder_.notes.empty());

  open_with(good_ + std::string(500, 'x'), "tail");
  EXPECT_NE(folder_.notes.at(0).find("its end is not complete"), std::string::npos);
}

TEST_F(StructureCacheDamage, AnotherKindOrVersionOfFileIsNeverMisread) {
  EXPECT_EQ(open_with(std::string(5000, 'x'), "foreign").parsed, 4u);
  EXPECT_NE(folder_.notes.at(0).find("of another version or kind"), std::string::npos);
  std::string newer = good_;
  newer[offsetof(stores::FileHeader, version)] = 9;
  EXPECT_EQ(open_with(newer, "version").parsed, 4u);
  EXPECT_EQ(open_with("", "empty").parsed, 4u);
}

TEST_F(StructureCacheDamage, RandomDamageNeverGivesOtherData) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    std::string bad = good_;
    for (unsigned change = random() % 4 + 1; change > 0; --change) {
      const size_t at = random() % bad.size(), size = random() % 300;
      switch (random() % 4) {
        case 0:
          bad.erase(at, size);
          break;
        case 1:
          bad.insert(at, std::string(size, static_cast<char>(random())));
          break;
        case 2:
          bad.replace(at, std::min(size, bad.size() - at),
                      std::string(std::min(size, bad.size() - at), '\0'));
          break;
        default:
          bad.insert(at, bad.substr(random() % bad.size(), size));
          break;
      }
      if (bad.empty()) bad = "x";
    }
    open_with(bad, "round " + std::to_string(round));
  }
}

// Payloads whose hashes are right but whose sizes point anywhere: made by hand, not by an accident.
TEST(StoredFile, SizesThatPointOutsideAreRefused) {
  const std::string good = structure_payload(parse(peptide({"ALA", "GLY"}) + peptide({"SER"}, 'B')));
  std::vector<uint64_t> aligned(good.size() / sizeof(uint64_t) + 1);
  auto* bytes = reinterpret_cast<char*>(aligned.data());
  const auto put = [&](const std::string& payload) {
    std::copy(payload.begin(), payload.end(), bytes);
    return std::string_view(bytes, payload.size());
  };
  ASSERT_TRUE(StoredFile::of(put(good)));
  std::mt19937 random(9);
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good.substr(0, good.size() - (random() % 3 == 0 ? random() % good.size() : 0));
    for (size_t at = 0; at + 4 <= bad.size() && at < sizeof(StoredFile::Head) + 16; at += 4) {
      const uint32_t value = random() % 2 ? random() : random() % 8;
      if (random() % 2) std::memcpy(bad.data() + at, &value, sizeof value);
    }
    const auto file = StoredFile::of(put(bad));
    if (!file || !file->is_structure()) continue;
    std::vector<ChainView> chains;
    file->append_chains(chains);
    uint64_t sum = file->text().size();
    for (const auto& chain : chains) {
      for (const char c : chain.name) sum += static_cast<unsigned char>(c);
      for (const auto& r : chain.residues) sum += r.amino_acid;
    }
    EXPECT_LT(sum, 1u << 20);
  }
}

// What of the cache file is read, and what of it stays.

void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); }

// A few hundred kB in the cache.
std::string large(const std::string& name) {
  std::string text;
  for (const char chain : {'A', 'B', 'C', 'D'}) {
    for (int i = 1; i < 2500; ++i)
      text += residue(name, {.chain = chain, .number = i, .x = i * 0.5}, {.atoms = {"CA"}});
  }
  return text;
}

TEST(StructureCacheUse, OnlyWhatIsOpenedIsRead) {
  LibraryFolder ours, other;
  other.write("o.pdb", peptide({"TRP", "TYR"}));
  ours.write("a.pdb", peptide({"ALA"}));
  const auto open = [&](LibraryFolder& folder) {
    folder.notes.clear();
    return StructureLibrary::open({.root = folder.files.path(), .cache_dir = ours.cache.path()},
                                  folder.hooks());
  };
  settle();
  open(other);
  open(ours);
  std::string bytes = tests::read_all(ours.cache_file());
  bytes[sizeof(stores::FileHeader) + sizeof(stores::RecordHeader) + 20] ^=
      1;  // in the other's record, which is the first
  ours.cache.write(std::filesystem::path(ours.cache_file()).filename().string(), bytes);
  EXPECT_EQ(contents_of(open(ours)), "a:A");
  EXPECT_TRUE(ours.notes.empty());
  const auto library = open(other);
  EXPECT_EQ(contents_of(library), "o:WY");
  EXPECT_EQ(library.counts().parsed, 1u);
  ASSERT_EQ(other.notes.size(), 1u);
  EXPECT_NE(other.notes[0].find("damaged in 1 place"), std::string::npos);
  EXPECT_EQ(open(other).counts().parsed, 0u);
  EXPECT_TRUE(other.notes.empty());
  EXPECT_EQ(open(ours).counts().parsed, 0u);  // the file without the damage has it, too
}

TEST(StructureCacheUse, WhatMostlyNobodyUsesIsWrittenAnew) {
  LibraryFolder folder, other;
  other.write("o.pdb", peptide({"TRP", "TYR"}));
  settle();
  StructureLibrary::open({.root = other.files.path(), .cache_dir = folder.cache.path()}, other.hooks());
  folder.write("a.pdb", large("ALA"));
  const auto first = folder.open();
  const std::string before = contents_of(first);
  const auto size = [&] { return std::filesystem::file_size(folder.cache_file()); };
  const uint64_t one = size();
  ASSERT_GT(one, 400'000u);
  uint64_t largest = 0;
  bool said = false;
  for (const auto* name : {"GLY", "SER", "TRP", "TYR", "LYS", "MET",
                           "CYS"}) {  // the file changes: what it was before is used no more
    folder.write("a.pdb", large(name));
    const auto library = folder.open();
    EXPECT_EQ(library.structure(0).chains[3].residues[2000].amino_acid,
              parse(peptide({name})).chains[0].residues[0].amino_acid);
    largest = std::max<uint64_t>(largest, size());
    for (const auto& note : folder.notes)
      said = said || note.find("without what was parsed of files that are no more") != std::string::npos;
    if (said) break;
  }
  EXPECT_TRUE(said);
  EXPECT_LT(largest, 4 * one);
  EXPECT_LT(size(), one + 1000);
  EXPECT_EQ(contents_of(first), before);  // who has the old file open keeps it
  EXPECT_EQ(folder.open().counts().parsed, 0u);
  const auto foreign =
      StructureLibrary::open({.root = other.files.path(), .cache_dir = folder.cache.path()}, other.hooks());
  EXPECT_EQ(foreign.counts().read, 0u);  // what another folder uses stays
  EXPECT_EQ(contents_of(foreign), "o:WY");
  EXPECT_EQ(folder.open().counts().parsed, 0u);
  EXPECT_TRUE(folder.notes.empty());
}

// The cache file changed in place while a library has it mapped: what is read of it is what was parsed, or
// there is an error that says so.

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
