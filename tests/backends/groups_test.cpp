// How groups form: several of them, and addresses and interfaces that lead nowhere. Ranks that are missing,
// twice or wrong do not come so far: see tests/peers.
#include "tests/backends/backends_test.hpp"

#include <unistd.h>

#include <dirent.h>

#include "core/base/error.hpp"

namespace pipeline::tests {
namespace {

using plugins::Communicator;
using plugins::host_buffer;
using ::testing::AllOf;
using ::testing::HasSubstr;

float sum_over(Communicator& group, float value) {
  group.all_reduce(host_buffer(&value, 1)).wait();
  return value;
}

class Groups : public BackendTest {};

TEST_P(Groups, SayWhatTheyUse) {
  expect_fine(on_ranks(tested(), 2, [](Rank& me) {
    EXPECT_NE(me.group.library(), "");
    EXPECT_NE(me.group.transport(), "");
  }));
}

TEST_P(Groups, SeveralAtTheSameTime) {
  expect_fine(on_raw_ranks(tested(), 3, [](const OpenArgs& args, Scene&) {
    OpenArgs other = args;
    other.group = "other";
    auto first = open_group(tested(), args), second = open_group(tested(), other);
    for (int i = 0; i < 20; ++i) {
      float a = 1, b = 10;
      plugins::Work in_first = first->all_reduce(host_buffer(&a, 1));
      plugins::Work in_second = second->all_reduce(host_buffer(&b, 1));
      in_second.wait();
      in_first.wait();
      EXPECT_EQ(a, 3);
      EXPECT_EQ(b, 30);
    }
    first.reset();
    EXPECT_EQ(sum_over(*second, 2), 6);
  }));
}

TEST_P(Groups, OneAfterTheOther) {
  expect_fine(on_raw_ranks(tested(), 2, [](const OpenArgs& args, Scene&) {
    for (int stage = 0; stage < 4; ++stage) {
      OpenArgs next = args;
      next.group = "stage " + std::to_string(stage);
      EXPECT_EQ(sum_over(*open_group(tested(), next), 1), 2);
    }
  }));
}

TEST_P(Groups, WhatFailsOnARankFailsOnAll) {
  const std::vector<std::string> problems = on_raw_ranks(tested(), 2, [](const OpenArgs& args, Scene& scene) {
    if (args.rank == 1) {
      scene.wait_for(0);
      throw std::runtime_error("rank 1 cannot go on");
    }
    scene.flag[0] = 1;
    open_group(tested(), args);
  });
  EXPECT_THAT(problems[0], HasSubstr("rank 1 cannot go on"));
}

INSTANTIATE_TEST_SUITE_P(Backend, Groups, kEveryBackend, backend_name);

class GlooGroups : public ProcessTest {
 protected:
  // What opening a group of one rank throws.
  static std::string problem_with(const std::string& interface, const std::string& address = "127.0.0.1") {
    return on_raw_ranks(tested(), 1, [&](const OpenArgs& args, Scene&) {
      OpenArgs mine = args;
      mine.address = address;
      open_group(tested(), mine, interface);
    })[0];
  }
};

TEST_P(GlooGroups, AnAddressThatIsUnknownIsNamed) {
  EXPECT_THAT(problem_with("", "no-such-host.invalid"),
              HasSubstr("the address no-such-host.invalid cannot be resolved"));
}

TEST_P(GlooGroups, AnInterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  EXPECT_THAT(problem_with("eth77"),
              AllOf(HasSubstr("this host has no network interface eth77"), HasSubstr("lo")));
}

TEST_P(GlooGroups, TheVariableThatPyTorchReadsChoosesTheInterfaceUnlessTheOptionDoes) {
  ::setenv("GLOO_SOCKET_IFNAME", "eth77,lo", 1);  // ranks are processes that inherit it
  const std::string by_variable = problem_with("");
  const std::string by_option = problem_with("eth78");
  ::unsetenv("GLOO_SOCKET_IFNAME");
  EXPECT_THAT(by_variable, HasSubstr("this host has no network interface eth77"));
  EXPECT_THAT(by_option, HasSubstr("this host has no network interface eth78"));
}

TEST_P(GlooGroups, AnInterfaceCanBeChosen) {
  RankOptions options;
  options.interface = "lo";
  expect_fine(on_ranks(
      tested(), 2, [](Rank& me) { EXPECT_EQ(me.group.transport(), "TCP over lo (127.0.0.1)"); }, options));
}

INSTANTIATE_TEST_SUITE_P(Backend, GlooGroups, ::testing::Values("gloo"), backend_name);

class ShmGroups : public ProcessTest {};

TEST_P(ShmGroups, RefuseSeveralHosts) {
  const std::vector<std::string> problems = on_raw_ranks(tested(), 1, [](const OpenArgs& args, Scene&) {
    OpenArgs more = args;
    more.world_size = 4;
    more.local_world_size = 2;
    open_group(tested(), more);
  });
  EXPECT_THAT(problems[0], HasSubstr("of this group's 4 ranks 2 are on this host: use gloo"));
}

std::string files_in(const char* folder) {
  std::string names;
  DIR* opened = ::opendir(folder);
  while (const dirent* entry = ::readdir(opened)) names += std::string(entry->d_name) + ' ';
  ::closedir(opened);
  return names;
}

TEST_P(ShmGroups, LeaveNothingBehindWhenKilled) {
  const std::string before = files_in("/dev/shm");
  on_ranks(tested(), 2, [](Rank& me) {
    sum_over(me.group, 1);
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(files_in("/dev/shm"), before);
}

INSTANTIATE_TEST_SUITE_P(Backend, ShmGroups, ::testing::Values("shm"), backend_name);

}  // namespace
}  // namespace pipeline::tests
