#include <random>

#include <gtest/gtest.h>

#include "plugins/tasks/summarization/data/token_cache.hpp"
#include "tests/summarization/token_caching.hpp"

namespace pipeline::summarization {
namespace {

class TokenCacheDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = open_or_build_token_cache(folder_.path(), source_, hooks_of_bytes()).path();
    good_ = tests::read_all(path_);
  }

  std::string reason_for(const std::string& content) {
    folder_.write(std::filesystem::path(path_).filename().string(), content);
    return tests::message_of<DataError>([&] { TokenCache(path_, key_, TokenCache::Verify::kAll); });
  }

  tests::FilesFolder folder_;
  TokenCacheSource source_ = source_of(folder_.write("train.jsonl", kThreePairs));
  Hash128 key_ = token_cache_key(source_);
  std::string path_, good_;
};

TEST_F(TokenCacheDamage, EveryChangedByteIsNoticed) {
  for (size_t i = 0; i < good_.size(); ++i) {
    auto bad = good_;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_NE(reason_for(bad), "(nothing was thrown)") << "byte " << i;
  }
}

TEST_F(TokenCacheDamage, EveryCutIsNoticed) {
  for (size_t size = 0; size < good_.size(); ++size) {
    EXPECT_NE(reason_for(good_.substr(0, size)), "(nothing was thrown)") << size;
  }
  EXPECT_NE(reason_for(good_ + "x"), "(nothing was thrown)");
}

TEST_F(TokenCacheDamage, TheReasonIsSaid) {
  EXPECT_NE(reason_for(std::string(200, 'x')).find("not a token cache"), std::string::npos);
  EXPECT_NE(reason_for(good_.substr(0, good_.size() - 1)).find("bytes instead of"), std::string::npos);
  auto newer = good_;
  newer[8] = 9;
  EXPECT_NE(reason_for(newer).find("version 9, not "), std::string::npos);
  folder_.write(std::filesystem::path(path_).filename().string(), good_);
  EXPECT_NE(tests::message_of<DataError>([&] {
              TokenCache(path_, Hash128{1, 2}, TokenCache::Verify::kAll);
            }).find("another tokenizer"),
            std::string::npos);
}

// Tables whose checksums are right but which point anywhere: a file made by hand, not by an accident.
TEST_F(TokenCacheDamage, EntriesThatPointOutsideAreRefused) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    auto bad = good_;
    auto& header = *reinterpret_cast<CacheHeader*>(bad.data());
    auto* entries = reinterpret_cast<uint64_t*>(bad.data() + header.index_begin);
    const size_t words = (header.samples + 1) * sizeof(CacheEntry) / sizeof(uint64_t);
    entries[random() % words] += (uint64_t{random()} << (random() % 33)) + 1;
    header.tables_hash = hash128(std::string_view(bad).substr(header.index_begin));
    header.header_hash = hash128(std::string_view(bad).substr(0, offsetof(CacheHeader, header_hash)));
    folder_.write(std::filesystem::path(path_).filename().string(), bad);
    try {
      const TokenCache cache(path_, key_, TokenCache::Verify::kTables);
      for (uint64_t i = 0; i < cache.size(); ++i)
        text_of(cache.sample(i).document) + text_of(cache.sample(i).summary);
    } catch (const DataError&) {
    }
  }
}

TEST_F(TokenCacheDamage, ADamagedCacheIsBuiltAgainAndTheReasonNoted) {
  reason_for(good_.substr(0, good_.size() / 2));
  auto hooks = hooks_of_bytes();
  std::vector<std::string> notes;
  hooks.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_EQ(open_or_build_token_cache(folder_.path(), source_, hooks).size(), 3u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("build it again"), std::string::npos);
  EXPECT_EQ(tests::read_all(path_), good_);
}

TEST_F(TokenCacheDamage, WhatAKilledProcessLeftIsOverwritten) {
  std::filesystem::rename(path_, path_ + ".part");
  folder_.write(std::filesystem::path(path_ + ".part").filename().string(), std::string(10000, 'x'));
  open_or_build_token_cache(folder_.path(), source_, hooks_of_bytes());
  EXPECT_EQ(tests::read_all(path_), good_);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
}

}  // namespace
}  // namespace pipeline::summarization
