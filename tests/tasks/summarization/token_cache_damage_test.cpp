#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "plugins/data/files/hash128.hpp"
#include "plugins/tasks/summarization/data/token_cache.hpp"
#include "tests/tasks/summarization/token_caching.hpp"

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
    return tests::message_of<DataError>([&] { TokenCache(path_, key_); });
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
  const std::string other_version = "of another version or kind, or its start is damaged: build it again";
  EXPECT_EQ(reason_for(std::string(200, 'x')), path_ + ": " + other_version);
  EXPECT_NE(reason_for(good_.substr(0, good_.size() - 1)).find("its end is not complete"), std::string::npos);
  auto newer = good_;
  newer[offsetof(records::FileHeader, version)] = 9;
  EXPECT_EQ(reason_for(newer), path_ + ": " + other_version);
  folder_.write(std::filesystem::path(path_).filename().string(), good_);
  EXPECT_NE(tests::message_of<DataError>([&] {
              TokenCache(path_, Hash128{1, 2});
            }).find("another tokenizer"),
            std::string::npos);
}

// Blocks and lists whose checksums are right but which point anywhere: a file made by hand, not by an
// accident.
TEST_F(TokenCacheDamage, EntriesThatPointOutsideAreRefused) {
  const records::RecordStore good(path_, kTokens);
  ASSERT_EQ(good.records().size(), 2u);  // a block and the list
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bad(files::bytes_of(records::FileHeader(kTokens)));
    for (const records::Record& record : good.records()) {
      std::string payload(good.payload(record));
      const size_t changed = random() % (payload.size() / sizeof(uint64_t)) * sizeof(uint64_t);
      uint64_t word;
      std::memcpy(&word, payload.data() + changed, sizeof word);
      word += (uint64_t{random()} << (random() % 33)) + 1;
      if (random() % 2 == 0) std::memcpy(payload.data() + changed, &word, sizeof word);
      bad += records::make_record(record.key, payload);
    }
    std::filesystem::remove(path_);  // the good one stays mapped
    folder_.write(std::filesystem::path(path_).filename().string(), bad);
    try {
      const TokenCache cache(path_, key_);
      for (uint64_t i = 0; i < cache.size(); ++i)
        text_of(cache.sample(i).document) + text_of(cache.sample(i).summary) +
            std::string(cache.sample(i).id);
    } catch (const DataError&) {
    }
  }
}

TEST_F(TokenCacheDamage, CutOffWhileItIsInUseIsRefusedAndDoesNotEndTheProcess) {
  const TokenCache cache(path_, key_);
  std::filesystem::resize_file(path_, 10);
  const auto message = tests::message_of<DataError>([&] { cache.sample(0); });
  EXPECT_TRUE(message.starts_with(path_ + ": was changed while it is in use (it has 10 bytes")) << message;
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
