// The cache file damaged by hand: what is found in it is right, and the rest is parsed again.
#include "plugins/tasks/protein/data/structure_cache.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "plugins/tasks/protein/data/structure_directory.hpp"
#include "tests/protein_data/library_folder.hpp"

namespace pipeline::protein {
namespace {

std::set<std::string> keys_of(const StructureCache& cache) {
  std::set<std::string> keys;
  for (const auto& record : cache.records()) {
    if (cache.is_whole(record)) keys.insert(record.header.key.hex());
  }
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

  void put(const std::string& bytes) const { folder_.cache.write(std::filesystem::path(folder_.cache_file()).filename().string(), bytes); }

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

  static constexpr size_t kStart = sizeof(CacheFileHeader);  // a new file has another number
  LibraryFolder folder_;
  std::string contents_, good_;
  files::Hash128 fingerprint_;
};

TEST_F(StructureCacheDamage, HoldsEveryFilesResiduesOrReason) {
  EXPECT_EQ(contents_, "a:AG b:SWY/G c:K");
  EXPECT_EQ(open_with(good_, "").parsed, 0u);
  EXPECT_EQ(tests::read_all(folder_.cache_file()), good_);
}

// With the directory and without it. The library is opened for a part of the places only: it waits for the disk each time.
TEST_F(StructureCacheDamage, AnyChangedByteIsNoticedAndTheFileParsedAgain) {
  const auto keys = keys_of(StructureCache(folder_.cache_file()));
  ASSERT_EQ(keys.size(), 4u);
  const std::string directory = StructureDirectory::path_of(folder_.cache_file()), known = tests::read_all(directory);
  for (size_t at = 0; at < good_.size(); ++at) {
    std::string bad = good_;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    put(bad);
    if (at % 2 == 0) {
      std::filesystem::remove(directory);
    } else {
      folder_.cache.write(std::filesystem::path(directory).filename().string(), known);
    }
    const auto left = keys_of(StructureCache(folder_.cache_file()));
    EXPECT_GE(left.size(), at < sizeof(CacheFileHeader) ? 0u : 3u) << at;
    EXPECT_TRUE(std::includes(keys.begin(), keys.end(), left.begin(), left.end())) << at;
    if (at % 29 != 0) continue;
    EXPECT_EQ(open_with(bad, "byte " + std::to_string(at)).parsed, 4 - left.size()) << at;
  }
}

TEST_F(StructureCacheDamage, AnyCutIsNoticedAndOnlyWhatIsMissingParsedAgain) {
  size_t before = 0;
  for (size_t size = 0; size <= good_.size(); ++size) {
    put(good_.substr(0, size));
    const size_t left = keys_of(StructureCache(folder_.cache_file())).size();
    EXPECT_GE(left, before) << size;
    before = left;
    if (size % 29 != 0) continue;
    EXPECT_EQ(open_with(good_.substr(0, size), "cut to " + std::to_string(size)).parsed, 4 - left);
    EXPECT_EQ(tests::read_all(folder_.cache_file()).substr(kStart), good_.substr(kStart)) << size;
  }
  EXPECT_EQ(before, 4u);
}

TEST_F(StructureCacheDamage, DamageIsSaidAndMendedOnce) {
  std::string bad = good_;
  bad[sizeof(CacheFileHeader) + sizeof(RecordHeader) + 20] ^= 1;
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
  EXPECT_NE(folder_.notes.at(0).find("not a cache of structures"), std::string::npos);
  std::string newer = good_;
  newer[8] = 9;
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
          bad.replace(at, std::min(size, bad.size() - at), std::string(std::min(size, bad.size() - at), '\0'));
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
TEST_F(StructureCacheDamage, SizesThatPointOutsideAreRefused) {
  const std::string good = make_record({1, 2}, parse(peptide({"ALA", "GLY"}) + peptide({"SER"}, 'B')));
  RecordHeader header;
  std::memcpy(&header, good.data(), sizeof header);
  const std::string payload = good.substr(sizeof header, header.payload_bytes);
  ASSERT_TRUE(is_whole(header, payload));
  std::mt19937 random(9);
  for (int round = 0; round < 20000; ++round) {
    RecordHeader changed = header;
    std::string bad = payload.substr(0, payload.size() - (random() % 3 == 0 ? random() % payload.size() : 0));
    for (size_t at = 0; at + 4 <= bad.size() && at < 16; at += 4) {
      const uint32_t value = random() % 2 ? random() : random() % 8;
      if (random() % 2) std::memcpy(bad.data() + at, &value, sizeof value);
    }
    if (random() % 4 == 0) changed.chains = random();
    if (random() % 8 == 0) changed.kind = random() % 4;
    changed.payload_bytes = bad.size();
    changed.payload_hash = files::hash128(bad);
    if (!is_whole(changed, bad) || changed.kind != static_cast<uint32_t>(RecordKind::kStructure)) continue;
    std::vector<ChainView> chains;
    append_chains(changed, bad, chains);
    uint64_t sum = 0;
    for (const auto& chain : chains) {
      for (const char c : chain.name) sum += static_cast<unsigned char>(c);
      for (const auto& r : chain.residues) sum += r.amino_acid;
    }
    EXPECT_LT(sum, 1u << 20);
  }
}

}  // namespace
}  // namespace pipeline::protein
