#include "core/plugins/host.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/plugins/call.hpp"

namespace pipeline::plugins {
namespace {

TEST(Host, HasEverySlotAndSaysItsVersion) {
  const pl_host& host = host_table();
  EXPECT_EQ(host.struct_size, sizeof(pl_host));
  EXPECT_EQ(host.abi_major, PL_ABI_MAJOR);
  EXPECT_EQ(host.abi_minor, PL_ABI_MINOR);
  const auto* slot = reinterpret_cast<void* const*>(&host.error_new);
  const auto* end = reinterpret_cast<void* const*>(&host + 1);
  for (; slot != end; ++slot) EXPECT_NE(*slot, nullptr);
}

TEST(Host, ErrorsCarryCodeAndACopyOfTheMessage) {
  const pl_host& host = host_table();
  std::string text = "parameter h.0.attn: shape is (2, 3)";
  pl_error* error = host.error_new(PL_ERROR_CORRUPT, to_pl(text));
  text.assign(text.size(), 'x');
  EXPECT_EQ(host.error_code(error), PL_ERROR_CORRUPT);
  EXPECT_EQ(view(host.error_message(error)), "parameter h.0.attn: shape is (2, 3)");
  try {
    check(error);
    FAIL() << "check() must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), PL_ERROR_CORRUPT);
    EXPECT_STREQ(e.what(), "parameter h.0.attn: shape is (2, 3)");
  }
  host.error_free(nullptr);
  check(nullptr);
}

TEST(Host, GuardTurnsEveryThrowIntoAnError) {
  const auto code_of = [](pl_error* error) {
    const std::uint32_t code = host_table().error_code(error);
    host_table().error_free(error);
    return code;
  };
  EXPECT_EQ(guard([] {}), nullptr);
  EXPECT_EQ(code_of(guard([] { throw Error(PL_ERROR_NO_SPACE, "disk"); })), PL_ERROR_NO_SPACE);
  EXPECT_EQ(code_of(guard([] { throw std::bad_alloc(); })), PL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(code_of(guard([] { throw std::runtime_error("x"); })), PL_ERROR_FAILED);
  EXPECT_EQ(code_of(guard([] { throw 3; })), PL_ERROR_FAILED);
}

TEST(Host, ContextCarriesCallsToItsCallbacks) {
  pl_context context("task x");
  std::vector<std::string> lines;
  context.log = [&](std::uint32_t level, std::string_view line) {
    lines.push_back(std::to_string(level) + std::string(line));
  };
  context.metric = [&](std::string_view name, double sum, double weight) {
    lines.push_back(std::string(name) + std::to_string(sum / weight));
  };
  context.progress = [&](std::string_view what, std::uint64_t done, std::uint64_t total) {
    lines.push_back(std::string(what) + std::to_string(done) + "/" + std::to_string(total));
  };
  context.cancelled = [] { return true; };
  const pl_host& host = host_table();
  host.log(&context, PL_LOG_WARNING, to_pl("careful"));
  host.metric(&context, to_pl("accuracy"), 1, 4);
  host.progress(&context, to_pl("tokens"), 2, 5);
  EXPECT_EQ(lines, (std::vector<std::string>{"3careful", "accuracy0.250000", "tokens2/5"}));
  EXPECT_EQ(host.cancelled(&context), 1u);
}

TEST(Host, CallbacksThatAreNotSetDoNothing) {
  pl_context context("task x");
  host_table().log(&context, PL_LOG_INFO, to_pl("nobody listens"));
  host_table().metric(&context, to_pl("accuracy"), 1, 4);
  host_table().progress(&context, to_pl("tokens"), 2, 5);
  EXPECT_EQ(host_table().cancelled(&context), 0u);
}

TEST(Host, AVisitorsErrorEndsTheVisitAndComesBack) {
  pl_context context("backend x");
  context.exchange = [](std::string_view, std::string_view mine) {
    return std::vector<std::string>(3, std::string(mine));
  };
  std::int32_t last = -1;
  const pl_bytes_visitor visit = [](void* user, std::int32_t rank, const void*, std::uint64_t) {
    *static_cast<std::int32_t*>(user) = rank;
    return rank == 1 ? make_error(PL_ERROR_CORRUPT, "rank 1 sent rubbish") : nullptr;
  };
  pl_error* error = host_table().exchange(&context, to_pl("facts"), "a", 1, visit, &last);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(host_table().error_code(error), PL_ERROR_CORRUPT);
  EXPECT_EQ(view(host_table().error_message(error)), "rank 1 sent rubbish");
  EXPECT_EQ(last, 1);
  host_table().error_free(error);
}

TEST(Host, WhatACallbackThrowsWaitsInTheInnermostCallOfItsThread) {
  pl_context context("task x");
  context.cancelled = []() -> bool { throw Error(PL_ERROR_NO_SPACE, "the disk is full"); };
  PendingException outer;
  {
    PendingException inner;
    EXPECT_EQ(host_table().cancelled(&context), 0u);
    EXPECT_EQ(host_table().cancelled(&context), 0u);
    EXPECT_THROW(std::rethrow_exception(inner.take()), Error);
    EXPECT_EQ(inner.take(), nullptr);
  }
  EXPECT_EQ(outer.take(), nullptr);
  host_table().cancelled(&context);
  EXPECT_NE(outer.take(), nullptr);
}

TEST(Host, WhatACallbackThrowsInAThreadOfThePluginsOwnIsLogged) {
  pl_context context("task x");
  context.cancelled = []() -> bool { throw Error("the disk is full"); };
  std::vector<std::string> lines;
  context.log = [&](std::uint32_t level, std::string_view line) {
    lines.push_back(std::to_string(level) + std::string(line));
  };
  PendingException call;
  std::thread([&] { host_table().cancelled(&context); }).join();
  EXPECT_EQ(lines, std::vector<std::string>{"4the disk is full"});
  EXPECT_EQ(call.take(), nullptr);
}

TEST(Host, WhatTheLogThrowsThereGoesToStderr) {
  pl_context context("task x");
  context.log = [](std::uint32_t, std::string_view) { throw Error("the disk is full"); };
  ::testing::internal::CaptureStderr();
  host_table().log(&context, PL_LOG_INFO, to_pl("line"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "error: the disk is full\n");
}

TEST(Host, RunInfoKeepsCopiesOfItsStrings) {
  pl_context context("task x");
  {
    std::string run = "runs/a", cache = "cache/b";
    auto info = sized<pl_run_info>();
    info.seed = 5;
    info.run_dir = to_pl(run);
    info.cache_dir = to_pl(cache);
    context.set_run_info(info);
  }
  const pl_run_info* info = host_table().run_info(&context);
  EXPECT_EQ(view(info->run_dir), "runs/a");
  EXPECT_EQ(view(info->cache_dir), "cache/b");
  EXPECT_EQ(host_table().seed(&context, to_pl("s"), 1, 2, 3),
            host_table().seed(&context, to_pl("s"), 1, 2, 3));
  EXPECT_NE(host_table().seed(&context, to_pl("s"), 1, 2, 3),
            host_table().seed(&context, to_pl("s"), 1, 2, 4));
}

#ifdef PIPELINE_THREAD_CHECKS
TEST(Host, MembersOfAGroupAreRanksOfTheRun) {
  pl_context context("strategy x");
  const auto open = [&](std::vector<int32_t> members) -> std::string {
    auto out = sized<pl_communicator>();
    pl_error* error =
        host_table().group_open(&context, to_pl("shards"), members.data(), members.size(), &out);
    if (!error) return "rank " + std::to_string(out.rank);
    const std::string message(view(host_table().error_message(error)));
    host_table().error_free(error);
    return message;
  };
  EXPECT_EQ(open({0}), "pl_host.group_open is for strategies and backends in training");
  pl_run_info run{};
  run.rank = 2;
  run.world_size = 4;
  context.set_run_info(run);
  context.open_group = [](std::string_view, const std::vector<int32_t>&) {
    auto group = sized<pl_communicator>();
    group.rank = 1;
    return group;
  };
  EXPECT_EQ(open({0, 2}), "rank 1");
  EXPECT_EQ(open({2, 4}), "pl_host.group_open: member 4 of 4 ranks, must be one of them and named once");
  EXPECT_EQ(open({2, 2}), "pl_host.group_open: member 2 of 4 ranks, must be one of them and named once");
  EXPECT_EQ(open({0, 1}), "pl_host.group_open: rank 2 is not a member of its own group");
}

TEST(Host, MetricFromAnotherThreadIsReported) {
  pl_context context("task x");
  std::string logged;
  context.log = [&](std::uint32_t, std::string_view line) { logged = line; };
  std::thread([&] { host_table().metric(&context, to_pl("accuracy"), 1, 1); }).join();
  EXPECT_THAT(logged, ::testing::HasSubstr("pl_host.metric is tagged [main]"));
}
#endif

TEST(StructCopy, ExtendsShorterAndCutsLonger) {
  struct Longer {
    pl_batch_info known;
    double later;
  };
  const Longer longer{{sizeof(Longer), 0, 1.5, 2, 3, 4}, 9};
  EXPECT_EQ(copy_and_extend<pl_batch_info>(&longer).positions, 4u);

  pl_batch_info shorter{offsetof(pl_batch_info, tokens), 0, 1.5, 2, 77, 77};
  const auto copy = copy_and_extend<pl_batch_info>(&shorter);
  EXPECT_EQ(copy.samples, 2u);
  EXPECT_EQ(copy.tokens, 0u);
  EXPECT_FALSE(PL_HAS(pl_batch_info, &copy, tokens));
  EXPECT_TRUE(PL_HAS(pl_batch_info, &copy, samples));
}

}  // namespace
}  // namespace pipeline::plugins
