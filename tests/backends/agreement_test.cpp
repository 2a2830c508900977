// Calls that differ between ranks, and arguments that are wrong, are errors on every rank.
#include "tests/backends/backends_test.hpp"

#include "core/base/error.hpp"

namespace pipeline::tests {
namespace {

using plugins::host_buffer;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Counts = std::vector<std::uint64_t>;

class Agreement : public BackendTest {
 protected:
  // What the ranks throw when each calls what `call` says, after one call that is alright.
  static std::vector<std::string> problems(int ranks, const std::function<void(Rank&)>& call) {
    return on_ranks(tested(), ranks, [&](Rank& me) {
      me.group.barrier().wait();
      call(me);
    });
  }
};

// The two calls have equal sizes: nothing but the comparison can notice.
TEST_P(Agreement, AnotherOrderIsNoticedAndBothCallsAreNamed) {
  EXPECT_THAT(problems(2,
                       [](Rank& me) {
                         float values[4] = {};
                         if (me.rank() == 0)
                           me.group.all_reduce(host_buffer(values, 4)).wait();
                         else
                           me.group.broadcast(host_buffer(values, 4), 0).wait();
                       }),
              Each(AllOf(HasSubstr("the ranks' calls differ at #2: rank 0: all_reduce of 4 x float32"),
                         HasSubstr("rank 1: broadcast of 4 x float32"))));
}

TEST_P(Agreement, AnotherSizeIsNoticed) {
  EXPECT_THAT(
      problems(3,
               [](Rank& me) {
                 std::vector<float> values(300'000);
                 me.group.all_reduce(host_buffer(values.data(), me.rank() == 2 ? 299'999 : 300'000)).wait();
               }),
      Each(HasSubstr("all_reduce of 299999 x float32")));
}

TEST_P(Agreement, AnotherDtypeIsNoticed) {
  EXPECT_THAT(
      problems(2,
               [](Rank& me) {
                 float narrow[2] = {};
                 double wide = 0;
                 me.group.all_reduce(me.rank() == 1 ? host_buffer(&wide, 1) : host_buffer(narrow, 1)).wait();
               }),
      Each(HasSubstr("float64")));
}

TEST_P(Agreement, AnotherReductionIsNoticed) {
  EXPECT_THAT(
      problems(2,
               [](Rank& me) {
                 float value = 0;
                 me.group.all_reduce(host_buffer(&value, 1), me.rank() == 0 ? PL_REDUCE_SUM : PL_REDUCE_MAX)
                     .wait();
               }),
      Each(HasSubstr("the ranks' calls differ")));
}

TEST_P(Agreement, AnotherRootIsNoticed) {
  EXPECT_THAT(problems(2,
                       [](Rank& me) {
                         float value = 0;
                         me.group.broadcast(host_buffer(&value, 1), me.rank()).wait();
                       }),
              Each(HasSubstr("the ranks' calls differ")));
}

TEST_P(Agreement, OtherSharesAreNoticed) {
  EXPECT_THAT(problems(2,
                       [](Rank& me) {
                         float in[4] = {}, out[3] = {};
                         const Counts counts = me.rank() == 0 ? Counts{1, 3} : Counts{2, 2};
                         me.group
                             .reduce_scatter(host_buffer(in, 4),
                                             host_buffer(out, counts[static_cast<std::size_t>(me.rank())]),
                                             counts)
                             .wait();
                       }),
              Each(HasSubstr("the ranks' calls differ")));
}

TEST_P(Agreement, OtherAmountsBetweenTwoRanksAreNoticed) {
  EXPECT_THAT(
      problems(2,
               [](Rank& me) {
                 float in[4] = {}, out[5] = {};
                 const Counts send{2, 2}, receive = me.rank() == 0 ? Counts{2, 3} : Counts{2, 2};
                 me.group
                     .all_to_all(host_buffer(in, 4), host_buffer(out, receive[0] + receive[1]), send, receive)
                     .wait();
               }),
      Each(AnyOf(
          HasSubstr("rank 0 sends 2 elements to rank 1, which expects 2; the other way 2, expected 3"),
          HasSubstr("rank 1 sends 2 elements to rank 0, which expects 3; the other way 2, expected 2"))));
}

TEST_P(Agreement, AfterItEveryCallFails) {
  EXPECT_THAT(
      problems(2,
               [](Rank& me) {
                 float value = 0;
                 EXPECT_NE(problem_of([&] { me.group.broadcast(host_buffer(&value, 1), me.rank()).wait(); }),
                           "none");
                 me.group.barrier().wait();
               }),
      Each(HasSubstr("the ranks' calls differ at #2")));
}

TEST_P(Agreement, WrongArgumentsAreRefusedAtOnceAndHarmNothing) {
  expect_fine(on_ranks(tested(), 2, [](Rank& me) {
    float values[4] = {};
    const Counts one{1};
    EXPECT_THAT(problem_of([&] { me.group.reduce_scatter(host_buffer(values, 3), host_buffer(values, 1)); }),
                HasSubstr(": reduce_scatter: 3 elements cannot be shared evenly by 2 ranks"));
    EXPECT_THAT(problem_of([&] { me.group.broadcast(host_buffer(values, 3), 2); }),
                HasSubstr(": broadcast: root is 2 of 2 ranks"));
    EXPECT_NE(problem_of([&] { me.group.all_reduce(host_buffer(values, 3), 9); }), "none");
    EXPECT_NE(problem_of([&] { me.group.all_gather(host_buffer(values, 1), host_buffer(values, 3), one); }),
              "none");
    EXPECT_THAT(problem_of([&] { me.group.all_reduce(host_buffer(static_cast<float*>(nullptr), 3)); }),
                HasSubstr(": all_reduce: the buffer has 3 elements and is NULL"));
    pl_buffer device = host_buffer(values, 3);
    device.device = {PL_DEVICE_CUDA, 0};
    EXPECT_THAT(problem_of([&] { me.group.all_reduce(device); }),
                HasSubstr(": all_reduce: the buffer is not in host memory (device type 2)"));
    pl_buffer odd = host_buffer(values, 2);
    odd.dtype = {PL_DTYPE_FLOAT, 8, 1};
    EXPECT_THAT(problem_of([&] { me.group.all_reduce(odd); }),
                HasSubstr(": all_reduce: dtype code 2 with 8 bits cannot be reduced"));
    pl_buffer later = host_buffer(values, 2);
    later.flags = 4;
    EXPECT_THAT(problem_of([&] { me.group.all_reduce(later); }), HasSubstr("all_reduce: flags 4 "));
    me.group.barrier().wait();
  }));
}

TEST_P(Agreement, BuffersThatOverlapAreRefused) {
  if (tested().name == "fake") GTEST_SKIP() << "the fake backend allows it";
  expect_fine(on_ranks(tested(), 2, [](Rank& me) {
    float values[8] = {};
    const auto overlap = HasSubstr("its two buffers overlap");
    EXPECT_THAT(
        problem_of([&] { me.group.reduce_scatter(host_buffer(values, 4), host_buffer(values + 1, 2)); }),
        overlap);
    EXPECT_THAT(problem_of([&] { me.group.all_gather(host_buffer(values + 1, 2), host_buffer(values, 4)); }),
                overlap);
    EXPECT_THAT(problem_of([&] { me.group.all_to_all(host_buffer(values, 4), host_buffer(values + 3, 4)); }),
                overlap);
    me.group.barrier().wait();
  }));
}

INSTANTIATE_TEST_SUITE_P(Backend, Agreement, kEveryBackend, backend_name);

}  // namespace
}  // namespace pipeline::tests
