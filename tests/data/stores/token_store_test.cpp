// Token stores: what is in them, damage of each byte, several processes, upkeep of the cache folder.
#include "plugins/data/stores/token_store.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/stores/sample_store.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::stores {
namespace {

namespace fs = std::filesystem;
using files::DataError;
using tests::in_child;
using tests::status_of;
using Tokens = std::vector<int32_t>;

const TokenReport kReport{.records = 4, .used = 3, .drops = "one is not JSON\n", .notes = "a note\n"};

// Three samples, of which the second has nothing to learn.
TokenReport add_three(const TokenSink& add) {
  add(pack_tokens({{1, 2, 3}, {4}, {5, 6}}, "first", 256));
  add(pack_tokens({{7}}, "second", 256));
  add(pack_tokens({{}, {8, 9}}, "", 256));
  return kReport;
}

class TokenStores : public testing::Test {
 protected:
  SampleSource source(uint64_t key = 1) const {
    return {cache_, "train", {key, 2}, "tokenizing train.jsonl"};
  }
  TokenStore open(const files::Hooks& hooks = {}) const {
    return open_or_fill_tokens(source(), hooks, add_three);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(cache_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  tests::FilesFolder folder_;
  std::string cache_ = folder_ / "cache";
};

TEST_F(TokenStores, HoldPartsAndWhatIsBesideThem) {
  const TokenStore store = open();
  ASSERT_EQ(store.size(), 3u);
  EXPECT_EQ(store.targets(), 2u);
  EXPECT_EQ(store.tokens(), 9u);
  const TokenSample first = store[0];
  ASSERT_EQ(first.parts.size(), 3u);
  EXPECT_EQ(first.parts[0].all<int32_t>(), (Tokens{1, 2, 3}));
  EXPECT_EQ(first.parts[1][0], 4);
  EXPECT_EQ(first.beside, "first");
  std::vector<int64_t> out{0};
  first.parts[2].append_to(out, 1);
  EXPECT_EQ(out, (std::vector<int64_t>{0, 5}));
  EXPECT_FALSE(store[1].has_target());
  EXPECT_EQ(store[2].beside, "");
  const TokenReport report = open().report();
  EXPECT_EQ(report.records, 4u);
  EXPECT_EQ(report.used, 3u);
  EXPECT_EQ(report.drops, kReport.drops);
  EXPECT_EQ(report.notes, kReport.notes);
}

TEST_F(TokenStores, TakeVocabulariesOfEverySize) {
  for (const int32_t most : {0, 255, 65535, 65536, 70000, 2000000000}) {
    const std::string sample = pack_tokens({{0, most}, {most}}, "x", static_cast<uint32_t>(most) + 1);
    const auto tokens = unpack_tokens(sample);
    ASSERT_TRUE(tokens);
    EXPECT_EQ(tokens->parts.at(0).all<int32_t>(), (Tokens{0, most}));
    EXPECT_EQ(tokens->parts.at(1)[0], most);
    EXPECT_EQ(tokens->beside, "x");
  }
  EXPECT_EQ(
      tests::message_of<DataError>([] { pack_tokens({{208}}, "", 200); }),
      "the tokenizer gave token 208, its vocabulary has 200: the tokenizer's files do not belong together");
}

TEST_F(TokenStores, AreFilledOnceForAKey) {
  int fills = 0;
  const auto fill = [&](const TokenSink& add) { return ++fills, add_three(add); };
  const std::string content = open_or_fill_tokens(source(), {}, fill).fingerprint();
  EXPECT_EQ(open_or_fill_tokens(source(), {}, fill).fingerprint(), content);
  EXPECT_EQ(fills, 1);
  EXPECT_EQ(open_or_fill_tokens(source(7), {}, fill).fingerprint(), content);
  EXPECT_EQ(fills, 2);
}

class DamagedTokens : public TokenStores {
 protected:
  DamagedTokens() : good_((open(), tests::read_all(path_))) {}

  // Why not all of it can be read.
  std::string reason_for(const std::string& content) {
    folder_.write("cache/" + fs::path(path_).filename().string(), content);
    return tests::message_of<DataError>([&] {
      SampleStore samples(path_, kTokens, source().key);
      if (!samples.is_whole()) throw DataError(samples.problem());
      const TokenStore store(std::move(samples));
      for (uint64_t i = 0; i < store.size(); ++i) store[i];
    });
  }

  std::string path_ = source().path(kTokens), good_;
};

TEST_F(DamagedTokens, EveryChangedByteThatIsReadIsNoticed) {
  std::vector<bool> is_padding(good_.size(), false);
  const SampleStore store(path_, kTokens, source().key);
  size_t end = sizeof(Header);
  for (uint64_t i = 0; i < store.size(); ++i)
    for (end += sizeof(uint64_t) + store.bytes(i); end % 8 != 0; ++end) is_padding[end] = true;
  for (size_t i = 0; i < good_.size(); ++i) {
    if (is_padding[i]) continue;
    auto bad = good_;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_NE(reason_for(bad), "(nothing was thrown)") << "byte " << i;
  }
}

TEST_F(DamagedTokens, EveryCutIsNoticed) {
  for (size_t size = 0; size < good_.size(); ++size)
    EXPECT_NE(reason_for(good_.substr(0, size)), "(nothing was thrown)") << size;
  EXPECT_NE(reason_for(good_ + "x"), "(nothing was thrown)");
}

TEST_F(DamagedTokens, TheReasonIsSaid) {
  const std::string other_version = "of another version or kind, or its start is damaged: it is made again";
  EXPECT_EQ(reason_for(std::string(200, 'x')), path_ + ": " + other_version);
  EXPECT_EQ(reason_for(good_.substr(0, good_.size() - 1)),
            path_ + ": its end is missing or damaged: it is made again");
}

// Samples whose hashes are right but which say anything: a file made by hand, not by an accident.
TEST_F(DamagedTokens, SamplesThatPointOutsideAreRefused) {
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string payload = pack_tokens({{1, 2, 3}, {4}, {5, 6}}, "first", round % 2 == 0 ? 256 : 1 << 20);
    const size_t changed = random() % (payload.size() / sizeof(uint32_t)) * sizeof(uint32_t);
    const uint32_t word = static_cast<uint32_t>(random()) >> random() % 32;
    std::memcpy(payload.data() + changed, &word, sizeof word);
    if (round % 3 == 0) payload.resize(random() % payload.size());
    size_t bytes = 0;
    if (const auto sample = unpack_tokens(payload)) {
      for (const TokenView& part : sample->parts) bytes += part.all<int32_t>().size();
      bytes += sample->beside.size();
    }
    EXPECT_LE(bytes, payload.size());
  }
}

TEST_F(DamagedTokens, CutOffWhileItIsInUseIsRefusedAndDoesNotEndTheProcess) {
  const TokenStore store = open();
  fs::resize_file(path_, 10);
  const auto message = tests::message_of<DataError>([&] { store[0]; });
  EXPECT_TRUE(message.starts_with(path_ + ": is damaged, or was changed while it is in use (a sample"))
      << message;
}

TEST_F(DamagedTokens, AreMadeAgainAndTheReasonNoted) {
  reason_for(good_.substr(0, good_.size() / 2));
  std::string notes;
  EXPECT_EQ(open({.note = [&](const std::string& note) { notes += note; }}).size(), 3u);
  EXPECT_NE(notes.find("it is made again"), std::string::npos);
  EXPECT_EQ(tests::read_all(path_), good_);
}

TEST_F(DamagedTokens, WhatAKilledProcessLeftIsOverwritten) {
  fs::rename(path_, path_ + ".part");
  folder_.write("cache/" + fs::path(path_ + ".part").filename().string(), std::string(10000, 'x'));
  open();
  EXPECT_EQ(tests::read_all(path_), good_);
  EXPECT_FALSE(fs::exists(path_ + ".part"));
}

TEST_F(TokenStores, OfSeveralProcessesOneTokenizes) {
  std::vector<pid_t> children;
  for (int process = 0; process < 6; ++process)
    children.push_back(in_child([&] {
      bool tokenized = false;
      const TokenStore store = open_or_fill_tokens(source(), {}, [&](const TokenSink& add) {
        tokenized = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        return add_three(add);
      });
      return store.size() == 3 && store[0].beside == "first" ? tokenized : 99;
    }));
  int tokenized = 0;
  for (const pid_t child : children) tokenized += status_of(child);
  EXPECT_EQ(tokenized, 1);
}

TEST_F(TokenStores, AProcessThatIsKilledReleasesTheLock) {
  const pid_t child = in_child([&] {
    open_or_fill_tokens(source(), {}, [](const TokenSink&) {
      ::raise(SIGKILL);
      return kReport;
    });
    return 0;
  });
  EXPECT_EQ(status_of(child), 200 + SIGKILL);
  EXPECT_EQ(open().size(), 3u);
}

// A limit on the size of files stands for a full disk, and so does a link to /dev/full.
TEST_F(TokenStores, AFullDiskIsAnErrorThatLeavesNothing) {
  const pid_t child = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto message = tests::message_of<DataError>([&] { open(); });
    return message.find("check the free space") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(files().size(), 0u);
  fs::create_symlink("/dev/full", source().path(kTokens) + ".part");
  try {
    open();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.code(), ENOSPC) << error.what();
  }
}

TEST_F(TokenStores, AnErrorWhileTheyAreFilledLeavesNothing) {
  EXPECT_THROW(open_or_fill_tokens(source(), {},
                                   [](const TokenSink& add) -> TokenReport {
                                     add_three(add);
                                     throw DataError("unreadable");
                                   }),
               DataError);
  EXPECT_EQ(files().size(), 0u);
}

class UnusedEntries : public TokenStores {
 protected:
  // A file, or a folder with one, that was last used so many days ago.
  std::string add(const std::string& name, int days, bool is_folder = false) const {
    const fs::path path = fs::path(cache_) / name;
    fs::create_directories(is_folder ? path : path.parent_path());
    folder_.write("cache/" + name + (is_folder ? "/tokenizer.json" : ""), std::string(1500000, 'x'));
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
    return name;
  }
  std::string note_of_open(uint64_t key) const {
    std::string notes;
    open_or_fill_tokens(source(key), {.note = [&](const std::string& note) { notes += note; }}, add_three);
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
  const std::string note = note_of_open(1);
  for (const std::string& name : old) {
    EXPECT_NE(note.find(name + " (1.5 MB)"), std::string::npos) << note;
    EXPECT_FALSE(fs::exists(cache_ + "/" + name)) << name;
  }
  EXPECT_EQ(note.find(lock), std::string::npos) << note;
  EXPECT_FALSE(fs::exists(cache_ + "/" + lock));
  for (const std::string& name : kept) {
    EXPECT_EQ(note.find(name + " ("), std::string::npos) << note;
    EXPECT_TRUE(fs::exists(cache_ + "/" + name)) << name;
  }
  EXPECT_EQ(note_of_open(1), "");
}

TEST_F(UnusedEntries, UseRenewsAnEntry) {
  const std::string path = open().path();
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 31));
  open();
  EXPECT_EQ(note_of_open(2), "");
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(TokenStores, WaitingIsToldOnceAndCanBeCancelled) {
  const files::FileLock held(folder_ / "lock", nullptr, nullptr);
  int told = 0, asked = 0;
  EXPECT_THROW(files::FileLock(
                   folder_ / "lock", [&] { ++told; }, [&] { return ++asked == 3; }),
               files::Cancelled);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace pipeline::stores
