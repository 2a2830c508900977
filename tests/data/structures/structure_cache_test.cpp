// The cache file damaged by hand: what is found in it is right, and the rest is parsed again.
#include <algorithm>
#include <cstring>
#include <random>
#include <set>

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

}  // namespace
}  // namespace pipeline::structures
