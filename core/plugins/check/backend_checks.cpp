#include <array>
#include <numeric>

#include "core/base/error.hpp"
#include "core/peers/peers.hpp"
#include "core/plugins/backend.hpp"
#include "core/plugins/check/subject.hpp"

namespace pipeline::plugins {
namespace {

constexpr std::chrono::seconds kTimeout(20);

// A group of one rank, on the CPU.
class Lonely {
 public:
  explicit Lonely(const CheckArgs& args) : subject_(args), peers_(World(), {}) {
    give_exchange(subject_.context(), peers_);
    OpenArgs open;
    open.address = "127.0.0.1";
    open.group = "check";
    open.timeout = kTimeout;
    try {
      group_ = std::make_unique<Communicator>(subject_.plugin(), subject_.context(), subject_.config(), open);
    } catch (const Error& e) {
      if (e.code() == PL_ERROR_UNSUPPORTED) throw Skip{e.what()};
      throw;
    }
  }
  Communicator& group() { return *group_; }

 private:
  Subject subject_;
  peers::Peers peers_;
  std::unique_ptr<Communicator> group_;
};

void opens_and_closes(const CheckArgs& args) {
  Lonely lonely(args);
  if (lonely.group().library().empty()) throw Error("info: library is empty");
}

// With one rank every collective leaves or copies the data.
void collectives_of_one_rank(const CheckArgs& args) {
  Lonely lonely(args);
  Communicator& group = lonely.group();
  std::vector<float> in(8), out(8), expected(8);
  std::iota(expected.begin(), expected.end(), 1.0f);
  const auto expect = [&](const std::vector<float>& seen, const char* what) {
    if (seen != expected) fail("{} of one rank changed the data", what);
  };
  in = expected;
  group.all_reduce(host_buffer(in.data(), 8)).wait();
  expect(in, "all_reduce");
  group.broadcast(host_buffer(in.data(), 8), 0).wait();
  expect(in, "broadcast");
  group.reduce_scatter(host_buffer(in.data(), 8), host_buffer(out.data(), 8)).wait();
  expect(out, "reduce_scatter");
  out.assign(8, 0);
  group.all_gather(host_buffer(in.data(), 8), host_buffer(out.data(), 8)).wait();
  expect(out, "all_gather");
  out.assign(8, 0);
  group.all_to_all(host_buffer(in.data(), 8), host_buffer(out.data(), 8)).wait();
  expect(out, "all_to_all");
  Work barrier = group.barrier();
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  while (!barrier.is_done()) {
    if (std::chrono::steady_clock::now() > deadline) throw Error("is_done: a barrier of one rank never is");
  }
  barrier.wait();
}

struct Dtype {
  const char* name;
  pl_dtype code;
};
constexpr Dtype kDtypes[] = {{"float64", {PL_DTYPE_FLOAT, 64, 1}}, {"float32", {PL_DTYPE_FLOAT, 32, 1}},
                             {"float16", {PL_DTYPE_FLOAT, 16, 1}}, {"bfloat16", {PL_DTYPE_BFLOAT, 16, 1}},
                             {"int64", {PL_DTYPE_INT, 64, 1}},     {"int32", {PL_DTYPE_INT, 32, 1}},
                             {"uint8", {PL_DTYPE_UINT, 8, 1}}};

// Every backend has all dtypes, and a rank may have no elements of anything.
void all_dtypes_and_no_elements(const CheckArgs& args) {
  Lonely lonely(args);
  Communicator& group = lonely.group();
  std::array<std::uint64_t, 3> memory{1, 1, 1};  // read as any of the dtypes, no NaN
  const std::array<std::uint64_t, 3> expected = memory;
  const std::uint64_t none[] = {0};
  for (const Dtype& dtype : kDtypes) {
    pl_buffer buffer = host_buffer(memory.data(), memory.size(), dtype.code);
    for (const std::uint32_t reduce : {PL_REDUCE_SUM, PL_REDUCE_MIN, PL_REDUCE_MAX}) {
      group.all_reduce(buffer, reduce).wait();
      if (memory != expected) fail("all_reduce of one rank changed {}", dtype.name);
    }
    const pl_buffer empty = host_buffer(nullptr, 0, dtype.code);
    group.all_reduce(empty).wait();
    group.broadcast(empty, 0).wait();
    group.all_gather(empty, empty, none).wait();
    group.reduce_scatter(empty, empty, none).wait();
    group.all_to_all(empty, empty, none, none).wait();
  }
}

// A shard may be this rank's own part of the full buffer.
void shards_in_place(const CheckArgs& args) {
  Lonely lonely(args);
  std::vector<float> full{1, 2, 3};
  const pl_buffer buffer = host_buffer(full.data(), full.size());
  lonely.group().all_gather(buffer, buffer).wait();
  lonely.group().reduce_scatter(buffer, buffer).wait();
  if (full != std::vector<float>{1, 2, 3}) throw Error("a collective in place changed the data of one rank");
}

// Wrong arguments are refused before anything is sent, so that the group goes on.
void refuses_wrong_arguments(const CheckArgs& args) {
  Lonely lonely(args);
  Communicator& group = lonely.group();
  std::vector<float> in(8), out(8);
  const auto expect_refusal = [](const char* what, auto&& call) {
    try {
      call();
    } catch (const Error&) {
      return;
    }
    fail("{} was accepted", what);
  };
  const std::uint64_t counts[] = {7};
  expect_refusal("a broadcast from rank 1 of 1",
                 [&] { group.broadcast(host_buffer(in.data(), 8), 1).wait(); });
  expect_refusal("a reduction that does not exist",
                 [&] { group.all_reduce(host_buffer(in.data(), 8), PL_REDUCE_MAX + 1).wait(); });
  expect_refusal("counts that add up to 7 for 8 elements", [&] {
    group.reduce_scatter(host_buffer(in.data(), 8), host_buffer(out.data(), 7), counts).wait();
  });
  expect_refusal("a shard of 7 of 8 elements on one rank",
                 [&] { group.all_gather(host_buffer(in.data(), 7), host_buffer(out.data(), 8)).wait(); });
  expect_refusal("a buffer of 8 elements at NULL",
                 [&] { group.all_reduce(host_buffer(static_cast<float*>(nullptr), 8)).wait(); });
  group.barrier().wait();
}

void abort_ends_everything(const CheckArgs& args) {
  Lonely lonely(args);
  lonely.group().abort("the check wants it");
  try {
    lonely.group().barrier().wait();
  } catch (const Error& e) {
    if (e.code() != PL_ERROR_PEER)
      fail("a barrier after abort fails with code {}, must be {} (PL_ERROR_PEER)", e.code(), PL_ERROR_PEER);
    return;
  }
  throw Error("a barrier after abort succeeded");
}

}  // namespace

std::vector<Promise> backend_promises() {
  return {{"opens and closes a group of one rank", opens_and_closes},
          {"collectives of one rank leave the data as it is", collectives_of_one_rank},
          {"all dtypes can be reduced, and buffers may be empty", all_dtypes_and_no_elements},
          {"a shard may lie in the full buffer", shards_in_place},
          {"wrong arguments are refused and harm nothing", refuses_wrong_arguments},
          {"calls after abort fail", abort_ends_everything}};
}

}  // namespace pipeline::plugins
