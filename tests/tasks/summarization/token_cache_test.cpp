#include "plugins/tasks/summarization/token_cache.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/tasks/summarization/token_caching.hpp"

namespace pipeline::tasks::summarization {
namespace {

class TokenCacheTest : public ::testing::Test {
 protected:
  std::string cache_folder() const { return folder_ / "cache"; }
  TokenCache open(const TokenCacheSource& source, const TokenCacheHooks& hooks = hooks_of_bytes()) const {
    return open_or_build_token_cache(cache_folder(), source, hooks);
  }

  tests::FilesFolder folder_;
  std::string path_ = folder_.write("train.jsonl", kThreePairs);
};

TEST_F(TokenCacheTest, HoldsTheTokensOfEveryPairInOrder) {
  const auto cache = open(source_of(path_));
  ASSERT_EQ(cache.size(), 3u);
  EXPECT_EQ(text_of(cache.sample(0).document), "first document");
  EXPECT_EQ(text_of(cache.sample(0).summary), "one");
  EXPECT_EQ(cache.sample(1).id, "ü");
  EXPECT_EQ(text_of(cache.sample(1).document), "второй");
  EXPECT_EQ(cache.tokens(), std::string("first documentoneвторой2thirdthree").size());
  int64_t copied[3];
  cache.sample(0).document.copy(copied, 6, 3);
  EXPECT_EQ(copied[0], 'd');
  EXPECT_EQ(copied[2], 'c');
}

TEST_F(TokenCacheTest, KeepsTheReportOfWhatWasDropped) {
  EXPECT_EQ(open(source_of(path_)).report().files.at(0).report.drops.at(0).lines, std::vector<uint64_t>{2});
  EXPECT_EQ(open(source_of(path_)).report().records(), 4u);
}

TEST_F(TokenCacheTest, TokenizesOnceForTheSameContent) {
  int calls = 0;
  auto hooks = hooks_of_bytes();
  hooks.encode = [&](std::string_view text) { return ++calls, encode_bytes(text); };
  const auto first = open(source_of(path_), hooks);
  EXPECT_EQ(calls, 6);
  folder_.write("train.jsonl", kThreePairs);  // written again, the same content
  EXPECT_EQ(open(source_of(path_), hooks).fingerprint(), first.fingerprint());
  EXPECT_EQ(calls, 6);
}

TEST_F(TokenCacheTest, AnythingThatMattersGivesAnotherKey) {
  const auto source = source_of(path_);
  const auto key = token_cache_key(source);
  const auto differs = [&](auto&& change) {
    auto other = source;
    change(other);
    return token_cache_key(other) != key;
  };
  EXPECT_EQ(token_cache_key(source), key);
  EXPECT_TRUE(differs([](auto& s) { s.tokenizer = "other"; }));
  EXPECT_TRUE(differs([](auto& s) { s.vocabulary_size = 300; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.first = "text"; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.second = "title"; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.id = "name"; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.id_required = true; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.second_required = false; }));
  EXPECT_TRUE(differs([](auto& s) { s.max_record_bytes = 100; }));
  EXPECT_TRUE(differs([](auto& s) { s.quotes = records::Quotes::kText; }));
  EXPECT_TRUE(differs([](auto& s) { s.part.held_out = 0.5; }));
  EXPECT_NE((files::Part{0.5, false}).key(), (files::Part{0.5, true}).key());
  EXPECT_TRUE(
      differs([&](auto& s) { s.files = files_at(folder_.write("changed.jsonl", kThreePairs + "\n")); }));
  EXPECT_FALSE(differs([&](auto& s) { s.files = files_at(folder_.write("renamed.jsonl", kThreePairs)); }));
  EXPECT_TRUE(differs([&](auto& s) { s.files = files_at(folder_.write("train.csv", kThreePairs)); }));
}

TEST_F(TokenCacheTest, APartHasItsRecordsOfTheFileInAnyOrder) {
  std::string ascending, descending;
  for (int i = 0; i < 1000; ++i) {
    const std::string pair = "{\"document\":\"d" + std::to_string(i / 2) + "\",\"summary\":\"s\"}\n";
    ascending += pair;
    descending = pair + descending;
  }
  const auto documents = [&](const std::string& text, bool validation) {
    auto source = source_of(folder_.write("many.jsonl", text));
    source.part = {.held_out = 0.1, .is_validation = validation};
    const TokenCache cache = open(source);
    EXPECT_EQ(cache.report().records(), 1000u) << "of the file";
    std::multiset<std::string> all;
    for (uint64_t i = 0; i < cache.size(); ++i) all.insert(text_of(cache.sample(i).document));
    return all;
  };
  const auto training = documents(ascending, false), validation = documents(ascending, true);
  EXPECT_EQ(training.size() + validation.size(), 1000u);
  EXPECT_EQ(validation.size(), 108u) << "another hash deals out otherwise, and old runs with it";
  for (const std::string& document : validation) {
    EXPECT_EQ(validation.count(document), 2u) << "equal documents stay together";
    EXPECT_FALSE(training.contains(document));
  }
  EXPECT_EQ(documents(descending, true), validation);
}

TEST_F(TokenCacheTest, TakesVocabulariesOfEverySize) {
  for (const int32_t shift : {255, 65535 - 255, 65536 - 255, 70000, 2000000000}) {
    auto source = source_of(path_);
    source.tokenizer = std::to_string(shift);
    source.vocabulary_size = static_cast<uint32_t>(shift) + 256;
    auto hooks = hooks_of_bytes();
    hooks.encode = [&](std::string_view text) { return encode_bytes(text, shift); };
    const auto cache = open(source, hooks);
    EXPECT_EQ(cache.sample(2).document[0], 't' + shift);
    EXPECT_EQ(cache.sample(1).document[0], 0xd0 + shift);
  }
}

TEST_F(TokenCacheTest, TokensOutsideTheVocabularyAreRefused) {
  auto source = source_of(path_);
  source.vocabulary_size = 200;
  EXPECT_EQ(
      tests::message_of<DataError>([&] { open(source); }),
      "the tokenizer gave token 208, its vocabulary has 200: the tokenizer's files do not belong together");
  EXPECT_EQ(files_in(cache_folder()).size(), 0u);
}

TEST_F(TokenCacheTest, ThreadsDoNotChangeTheResult) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += "{\"document\":\"d" + std::string(static_cast<size_t>(i % 300), 'x') + std::to_string(i) +
            "\",\"summary\":\"s\"}\n";
  }
  const auto source = source_of(folder_.write("many.jsonl", text));
  auto hooks = hooks_of_bytes();
  const auto one = open_or_build_token_cache(folder_ / "one", source, hooks).fingerprint();
  hooks.threads = 4;
  EXPECT_EQ(open_or_build_token_cache(folder_ / "four", source, hooks).fingerprint(), one);
}

TEST_F(TokenCacheTest, AnErrorOfTheTokenizerGoesThroughFromAnyThread) {
  auto hooks = hooks_of_bytes();
  hooks.threads = 3;
  hooks.encode = [](std::string_view text) -> std::vector<int32_t> {
    if (text == "three") throw std::runtime_error("no such token");
    return encode_bytes(text);
  };
  EXPECT_EQ(tests::message_of<std::runtime_error>([&] { open(source_of(path_), hooks); }), "no such token");
  EXPECT_EQ(files_in(cache_folder()).size(), 0u);
}

TEST_F(TokenCacheTest, ProgressIsReportedAndCancellingLeavesNothing) {
  auto hooks = hooks_of_bytes();
  uint64_t done = 0, total = 0;
  hooks.progress = [&](uint64_t bytes_done, uint64_t bytes_total) { done = bytes_done, total = bytes_total; };
  hooks.cancelled = [] { return true; };
  EXPECT_THROW(open(source_of(path_), hooks), Cancelled);
  EXPECT_EQ(files_in(cache_folder()).size(), 0u);
  hooks.cancelled = [] { return false; };
  open(source_of(path_), hooks);
  EXPECT_EQ(done, kThreePairs.size());
  EXPECT_EQ(total, kThreePairs.size());
}

TEST_F(TokenCacheTest, AFileThatChangesWhileItIsReadIsRefused) {
  auto hooks = hooks_of_bytes();
  hooks.encode = [&](std::string_view text) {
    folder_.write("train.jsonl", kThreePairs + "\n");
    return encode_bytes(text);
  };
  const auto message = tests::message_of<DataError>([&] { open(source_of(path_), hooks); });
  EXPECT_NE(message.find("changed while it was being read"), std::string::npos) << message;
}

TEST_F(TokenCacheTest, AChangeAfterTheHashingIsNoticed) {
  const auto source = source_of(path_);
  folder_.write("train.jsonl", kThreePairs + "\n");
  const auto message = tests::message_of<DataError>([&] { open(source); });
  EXPECT_NE(message.find("changed while it was being read"), std::string::npos) << message;
}

TEST_F(TokenCacheTest, CountsTheSummaries) {
  EXPECT_EQ(open(source_of(path_)).summaries(), 3u);
  auto source = source_of(folder_.write("documents.csv", "document,summary\na,\nb,c\n"));
  source.columns.second_required = false;
  EXPECT_EQ(open(source).summaries(), 1u);
  EXPECT_EQ(open(source).size(), 2u);
}

// A link to /dev/full in the place of the unfinished file.
TEST_F(TokenCacheTest, AFullDiskIsToldFromOtherErrors) {
  const auto source = source_of(path_);
  std::filesystem::create_directories(cache_folder());
  std::filesystem::create_symlink(
      "/dev/full", token_cache_path(cache_folder(), source, token_cache_key(source)) + ".part");
  try {
    open(source);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.code(), ENOSPC) << error.what();
  }
}

class UnusedEntries : public TokenCacheTest {
 protected:
  // A file, or a folder with one, that was last used so many days ago.
  std::string add(const std::string& name, int days, bool is_folder = false) const {
    const std::filesystem::path path = std::filesystem::path(cache_folder()) / name;
    std::filesystem::create_directories(is_folder ? path : path.parent_path());
    folder_.write("cache/" + name + (is_folder ? "/tokenizer.json" : ""), std::string(1500000, 'x'));
    const auto time = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * days);
    std::filesystem::last_write_time(path, time);
    return name;
  }
  std::string note_of_open(const TokenCacheSource& source) const {
    std::string notes;
    auto hooks = hooks_of_bytes();
    hooks.note = [&](const std::string& note) { notes += note; };
    open(source, hooks);
    return notes;
  }
  const std::string key_ = std::string(30, 'a') + "09";
};

TEST_F(UnusedEntries, AreRemovedWhenANewOneIsWritten) {
  const std::vector<std::string> old = {
      add("x-" + key_ + ".tokens", 31), add("y-" + key_ + ".tokens.part", 40),
      add("tokenizer-" + key_, 31, true), add("tokenizer-" + key_ + ".tmp", 31, true)};
  const std::vector<std::string> kept = {add("young-" + key_ + ".tokens", 29), add("others.tokens", 90),
                                         add("tokenizer-mine", 90, true)};
  const std::string lock = add("x-" + key_ + ".tokens.lock", 90);  // of a process that was killed
  const std::string note = note_of_open(source_of(path_));
  for (const std::string& name : old) {
    EXPECT_NE(note.find(name + " (1.5 MB)"), std::string::npos) << note;
    EXPECT_FALSE(std::filesystem::exists(cache_folder() + "/" + name)) << name;
  }
  EXPECT_EQ(note.find(lock), std::string::npos) << note;
  EXPECT_FALSE(std::filesystem::exists(cache_folder() + "/" + lock));
  for (const std::string& name : kept) {
    EXPECT_EQ(note.find(name + " ("), std::string::npos) << note;
    EXPECT_TRUE(std::filesystem::exists(cache_folder() + "/" + name)) << name;
  }
  EXPECT_EQ(note_of_open(source_of(path_)), "");
}

TEST_F(UnusedEntries, UseRenewsAnEntry) {
  const std::string name = std::filesystem::path(open(source_of(path_)).path()).filename();
  const auto before = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 31);
  std::filesystem::last_write_time(cache_folder() + "/" + name, before);
  open(source_of(path_));
  EXPECT_EQ(note_of_open(source_of(folder_.write("other.jsonl", kThreePairs + "\n"))), "");
  EXPECT_TRUE(std::filesystem::exists(cache_folder() + "/" + name));
}

TEST_F(TokenCacheTest, UnusableFilesAreErrorsAndLeaveNoCache) {
  EXPECT_THROW(open(source_of(folder_ / "no.jsonl")), DataError);
  EXPECT_THROW(open(source_of(folder_.write("bad.jsonl", "x\n"))), DataError);
  auto source = source_of(path_);
  EXPECT_NE(tests::message_of<DataError>([&] {
              open_or_build_token_cache(path_ + "/cache", source, hooks_of_bytes());
            }).find("cache folder"),
            std::string::npos);
}

}  // namespace
}  // namespace pipeline::tasks::summarization
