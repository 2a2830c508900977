#include "core/launch/rank_env.hpp"

#include <gmock/gmock.h>

#include "core/base/error.hpp"

namespace pipeline::launch {
namespace {

using testing::ElementsAre;

TEST(SlurmLists, Nodes) {
  EXPECT_THAT(expand_nodes("login"), ElementsAre("login"));
  EXPECT_THAT(expand_nodes("n[1-3,7]"), ElementsAre("n1", "n2", "n3", "n7"));
  EXPECT_THAT(expand_nodes("gpu-a[08-11],big2.cluster,x[5]"),
              ElementsAre("gpu-a08", "gpu-a09", "gpu-a10", "gpu-a11", "big2.cluster", "x5"));
  EXPECT_THAT(expand_nodes("rack[1-2]n[098-101]-ib"),
              ElementsAre("rack1n098-ib", "rack1n099-ib", "rack1n100-ib", "rack1n101-ib", "rack2n098-ib",
                          "rack2n099-ib", "rack2n100-ib", "rack2n101-ib"));
  EXPECT_EQ(expand_nodes("n[0001-4096]").size(), 4096u);
}

TEST(SlurmLists, Tasks) {
  EXPECT_THAT(expand_tasks("4"), ElementsAre(4));
  EXPECT_THAT(expand_tasks("2(x3),1"), ElementsAre(2, 2, 2, 1));
}

TEST(SlurmLists, WhatIsNoListIsSaidToBeNone) {
  for (const char* text : {"", ",", "n[", "n[1-", "n[1-3", "n[3-1]", "n[a]", "n[]", "n1,,n2", "n[1-99999999]",
                           "n[18446744073709551616]"})
    EXPECT_THROW(expand_nodes(text), Error) << text;
  for (const char* text : {"", "a", "2(", "2(x", "2(x3", "2(x3)1", "2,", "2(x99999999999)", "-1"})
    EXPECT_THROW(expand_tasks(text), Error) << text;
  try {
    expand_nodes("n[1-3,x]");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_CONFIG);
    EXPECT_STREQ(error.what(), "'n[1-3,x]' is not a list as Slurm writes it (at position 7)");
  }
}

}  // namespace
}  // namespace pipeline::launch
