#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/child_process.hpp"
#include "tests/tasks/summarization/token_caching.hpp"

namespace pipeline::tasks::summarization {
namespace {

using tests::in_child;
using tests::status_of;

TEST(TokenCacheLock, OfSeveralProcessesOneTokenizes) {
  const tests::FilesFolder folder;
  const auto source = source_of(folder.write("train.jsonl", kThreePairs));
  std::vector<pid_t> children;
  for (int process = 0; process < 6; ++process) {
    children.push_back(in_child([&] {
      bool tokenized = false;
      auto hooks = hooks_of_bytes();
      hooks.encode = [&](std::string_view text) {
        tokenized = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return encode_bytes(text);
      };
      const auto cache = open_or_build_token_cache(folder / "cache", source, hooks);
      return cache.size() == 3 && text_of(cache.sample(0).summary) == "one" ? tokenized : 99;
    }));
  }
  int tokenized = 0;
  for (const pid_t child : children) tokenized += status_of(child);
  EXPECT_EQ(tokenized, 1);
}

TEST(TokenCacheLock, AProcessThatIsKilledReleasesIt) {
  const tests::FilesFolder folder;
  const auto source = source_of(folder.write("train.jsonl", kThreePairs));
  const pid_t child = in_child([&] {
    auto hooks = hooks_of_bytes();
    hooks.encode = [](std::string_view) -> std::vector<int32_t> {
      ::raise(SIGKILL);
      return {};
    };
    open_or_build_token_cache(folder / "cache", source, hooks);
    return 0;
  });
  EXPECT_EQ(status_of(child), 200 + SIGKILL);
  EXPECT_EQ(open_or_build_token_cache(folder / "cache", source, hooks_of_bytes()).size(), 3u);
}

// A limit on the size of files stands for a full disk.
TEST(TokenCacheLock, AFullDiskIsAnErrorThatLeavesNothing) {
  const tests::FilesFolder folder;
  const auto source = source_of(folder.write("train.jsonl", kThreePairs));
  const pid_t child = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto message = tests::message_of<DataError>(
        [&] { open_or_build_token_cache(folder / "cache", source, hooks_of_bytes()); });
    return message.find("check the free space") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(files_in(folder / "cache").size(), 0u);
}

TEST(TokenCacheLock, WaitingIsToldOnceAndCanBeCancelled) {
  const tests::FilesFolder folder;
  const FileLock held(folder / "lock", nullptr, nullptr);
  int told = 0, asked = 0;
  EXPECT_THROW(FileLock(
                   folder / "lock", [&] { ++told; }, [&] { return ++asked == 3; }),
               Cancelled);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace pipeline::tasks::summarization
