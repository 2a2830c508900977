#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/stores/sample_writer.hpp"
#include "plugins/tasks/summarization/token_cache.hpp"
#include "tests/tasks/summarization/token_caching.hpp"

namespace pipeline::tasks::summarization {
namespace {

class TokenCacheDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = open_or_build_token_cache(folder_.path(), source_, hooks_of_bytes()).path();
    good_ = tests::read_all(path_);
  }

  TokenCache open(const Hash128& key) const {
    stores::SampleStore store(path_, kTokens, key);
    if (!store.is_whole()) throw DataError(store.problem());
    return TokenCache(std::move(store));
  }
  // Why not all of it can be read.
  std::string reason_for(const std::string& content) {
    folder_.write(std::filesystem::path(path_).filename().string(), content);
    return tests::message_of<DataError>([&] {
      const TokenCache cache = open(key_);
      for (uint64_t i = 0; i < cache.size(); ++i) cache.sample(i);
    });
  }

  tests::FilesFolder folder_;
  TokenCacheSource source_ = source_of(folder_.write("train.jsonl", kThreePairs));
  Hash128 key_ = token_cache_key(source_);
  std::string path_, good_;
};

TEST_F(TokenCacheDamage, EveryChangedByteThatIsReadIsNoticed) {
  std::vector<bool> is_padding(good_.size(), false);
  const stores::SampleStore store(path_, kTokens, key_);
  size_t end = sizeof(stores::Header);
  for (uint64_t i = 0; i < store.size(); ++i)
    for (end += sizeof(uint64_t) + store.bytes(i); end % 8 != 0; ++end) is_padding[end] = true;
  for (size_t i = 0; i < good_.size(); ++i) {
    if (is_padding[i]) continue;
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
  const std::string other_version = "of another version or kind, or its start is damaged: it is made again";
  EXPECT_EQ(reason_for(std::string(200, 'x')), path_ + ": " + other_version);
  EXPECT_EQ(reason_for(good_.substr(0, good_.size() - 1)),
            path_ + ": its end is missing or damaged: it is made again");
  auto newer = good_;
  newer[offsetof(stores::Header, version)] = 9;
  EXPECT_EQ(reason_for(newer), path_ + ": " + other_version);
  folder_.write(std::filesystem::path(path_).filename().string(), good_);
  EXPECT_EQ(tests::message_of<DataError>([&] {
              open({1, 2});
            }),
            path_ + ": made of other data, or with other options: it is made again");
}

// Samples whose hashes are right but which say anything: a file made by hand, not by an accident.
TEST_F(TokenCacheDamage, SamplesThatPointOutsideAreRefused) {
  const stores::SampleStore good(path_, kTokens, key_);
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    stores::SampleWriter writer(path_ + "2", kTokens);
    for (uint64_t i = 0; i < good.size(); ++i) {
      std::string payload(good[i].payload());
      const size_t changed = random() % (payload.size() / sizeof(uint32_t)) * sizeof(uint32_t);
      const uint32_t word = static_cast<uint32_t>(random()) >> random() % 32;
      if (random() % 2 == 0) std::memcpy(payload.data() + changed, &word, sizeof word);
      writer.append(payload);
    }
    writer.finish(key_, good.summary());
    try {
      const TokenCache cache(stores::SampleStore(path_ + "2", kTokens, key_));
      for (uint64_t i = 0; i < cache.size(); ++i)
        text_of(cache.sample(i).document) + text_of(cache.sample(i).summary) +
            std::string(cache.sample(i).id);
    } catch (const DataError&) {
    }
  }
}

TEST_F(TokenCacheDamage, CutOffWhileItIsInUseIsRefusedAndDoesNotEndTheProcess) {
  const TokenCache cache = open(key_);
  std::filesystem::resize_file(path_, 10);
  const auto message = tests::message_of<DataError>([&] { cache.sample(0); });
  EXPECT_TRUE(message.starts_with(path_ + ": is damaged, or was changed while it is in use (a sample"))
      << message;
}

TEST_F(TokenCacheDamage, ADamagedCacheIsBuiltAgainAndTheReasonNoted) {
  reason_for(good_.substr(0, good_.size() / 2));
  auto hooks = hooks_of_bytes();
  std::vector<std::string> notes;
  hooks.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_EQ(open_or_build_token_cache(folder_.path(), source_, hooks).size(), 3u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("it is made again"), std::string::npos);
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
}  // namespace pipeline::tasks::summarization
