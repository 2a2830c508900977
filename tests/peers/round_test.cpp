#include "core/peers/round.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/peers/rendezvous.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::peers {
namespace {

TEST(Pack, GivesBackWhatItTook) {
  const std::vector<std::string> parts = {"", "one", std::string(5000, 'x'), std::string("\0\1", 2)};
  EXPECT_EQ(unpack(pack(parts), 4), parts);
  EXPECT_EQ(unpack(pack({}), 0), std::vector<std::string>());
}

TEST(Pack, DamageIsAnError) {
  const std::string packed = pack({"one", "two"});
  EXPECT_THROW(unpack(packed.substr(0, 7), 1), Error);
  EXPECT_THROW(unpack(packed.substr(0, packed.size() - 1), 2), Error);
  EXPECT_THROW(unpack(packed + "x", 2), Error);
  EXPECT_THROW(unpack(packed, 3), Error);
}

TEST(Rounds, EachKindRepliesInItsWay) {
  Rounds rounds(2);
  const auto replies = [&](Exchange kind) {
    EXPECT_FALSE(rounds.add(1, kind, "c", "b"));
    auto result = rounds.add(0, kind, "c", "a");
    return std::pair(*result->at(0), *result->at(1));
  };
  const std::string all = pack({"a", "b"}), none;
  EXPECT_EQ(replies(Exchange::all_gather), std::pair(all, all));
  EXPECT_EQ(replies(Exchange::gather), std::pair(all, none));
  EXPECT_EQ(replies(Exchange::broadcast), std::pair(none, std::string("a")));
  EXPECT_EQ(replies(Exchange::barrier), std::pair(none, none));
}

TEST(Rounds, ChannelsAreApart) {
  Rounds rounds(2);
  EXPECT_FALSE(rounds.add(0, Exchange::barrier, "one", ""));
  EXPECT_FALSE(rounds.add(1, Exchange::gather, "two", ""));
  EXPECT_EQ(rounds.waits_in(0), "barrier of 'one'");
  EXPECT_EQ(rounds.waits_for(0), "gather of 'two'");
  EXPECT_TRUE(rounds.add(1, Exchange::barrier, "one", ""));
  EXPECT_EQ(rounds.waits_in(0), "");
}

TEST(Rounds, RanksOutOfStepAreNamed) {
  Rounds rounds(3);
  rounds.add(2, Exchange::gather, "evaluation", "");
  EXPECT_EQ(error_of([&] { rounds.add(1, Exchange::barrier, "evaluation", ""); }),
            "it calls barrier of 'evaluation' where rank 2 calls gather: all ranks have to call the same "
            "exchanges of a channel in the same order");
  EXPECT_EQ(error_of([&] { rounds.add(2, Exchange::gather, "evaluation", ""); }),
            "it calls gather of 'evaluation' from two threads at once");
}

TEST(RankList, JoinsNeighbours) {
  EXPECT_EQ(list_of({3}), "rank 3");
  EXPECT_EQ(list_of({0, 1, 2, 5, 7, 8}), "ranks 0-2, 5, 7-8");
  EXPECT_EQ(list_of({0, 2}, {"a", "b", "a"}), "ranks 0, 2 (host a)");
  EXPECT_EQ(list_of({0, 1}, {"a", "b", "a"}), "ranks 0-1");
}

}  // namespace
}  // namespace pipeline::peers
