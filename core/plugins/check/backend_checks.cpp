#include <fmt/format.h>

#include <numeric>

#include "core/base/error.hpp"
#include "core/base/free_port.hpp"
#include "core/plugins/backend.hpp"
#include "core/plugins/check/subject.hpp"

namespace pipeline::plugins {
namespace {

constexpr std::chrono::seconds kTimeout(20);

// A group of one rank, on the CPU.
class Lonely {
 public:
  explicit Lonely(const CheckArgs& args) : subject_(args) {
    OpenArgs open;
    open.address = "127.0.0.1";
    open.port = free_port();
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
    if (seen != expected) throw Error(fmt::format("{} of one rank changed the data", what));
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

// Refused before anything is sent, so that the group goes on.
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
    throw Error(fmt::format("{} was accepted", what));
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
  } catch (const Error&) {
    return;
  }
  throw Error("a barrier after abort succeeded");
}

}  // namespace

std::vector<Promise> backend_promises() {
  return {{"opens and closes a group of one rank", opens_and_closes},
          {"collectives of one rank leave the data as it is", collectives_of_one_rank},
          {"wrong arguments are refused and harm nothing", refuses_wrong_arguments},
          {"calls after abort fail", abort_ends_everything}};
}

}  // namespace pipeline::plugins
