// How groups form and end: several of them, ranks that are missing, twice or wrong, addresses that lead
// nowhere.
#include "tests/backends/backends_test.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <dirent.h>

#include "core/base/error.hpp"
#include "core/base/free_port.hpp"

namespace pipeline::tests {
namespace {

using plugins::Communicator;
using plugins::host_buffer;
using plugins::OpenArgs;
using ::testing::AllOf;
using ::testing::HasSubstr;

float sum_over(Communicator& group, float value) {
  group.all_reduce(host_buffer(&value, 1)).wait();
  return value;
}

OpenArgs lonely_args(std::uint32_t port, double timeout = 0.6) {
  OpenArgs args;
  args.address = "127.0.0.1";
  args.port = port;
  args.group = "lonely";
  args.timeout = std::chrono::duration<double>(timeout);
  return args;
}

class Groups : public BackendTest {};

TEST_P(Groups, SayWhatTheyUse) {
  expect_fine(on_ranks(tested(), 2, [](Rank& me) {
    EXPECT_NE(me.group.library(), "");
    EXPECT_NE(me.group.transport(), "");
  }));
}

TEST_P(Groups, SeveralAtOneAddressAtTheSameTime) {
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

TEST_P(Groups, OneAfterTheOtherAtOtherPortsAndAtTheSame) {
  expect_fine(on_raw_ranks(tested(), 2, [](const OpenArgs& args, Scene& scene) {
    for (int stage = 0; stage < 4; ++stage) {
      OpenArgs next = args;
      next.group = "stage" + std::to_string(stage);
      if (stage % 2 == 1) {
        if (args.rank == 0) scene.flag[stage] = free_port();
        scene.wait_for(stage);
        next.port = static_cast<std::uint32_t>(scene.flag[stage].load());
      }
      auto group = open_group(tested(), next);
      EXPECT_EQ(sum_over(*group, 1), 2);
    }
  }));
}

TEST_P(Groups, OpenBeginsAgainAfterAFailure) {
  expect_fine(on_raw_ranks(tested(), 2, [](const OpenArgs& args, Scene& scene) {
    OpenArgs early = args;
    early.timeout = std::chrono::duration<double>(0.4);
    if (args.rank == 0) {
      EXPECT_THAT(problem_of([&] { open_group(tested(), early); }),
                  HasSubstr("these of 2 ranks have not come: 1"));
      scene.flag[0] = 1;
    }
    scene.wait_for(0);
    EXPECT_EQ(sum_over(*open_group(tested(), args), 1), 2);
  }));
}

TEST_P(Groups, RanksThatAreMissingAreNamedWithinTheTimeout) {
  OpenArgs args = lonely_args(free_port());
  args.world_size = args.local_world_size = 3;
  for (const int rank : {0, 1}) {
    expect_fine(on_raw_ranks(tested(), 1, [&](const OpenArgs&, Scene&) {
      args.rank = rank;
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_THAT(problem_of([&] { open_group(tested(), args); }),
                  HasSubstr(rank == 0 ? "after 0.6 seconds of waiting these of 3 ranks have not come: 1, 2"
                                      : "after 0.6 seconds of waiting these of 3 ranks have not come: 0"));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    }));
  }
}

TEST_P(Groups, ARankThatIsThereTwiceIsRefused) {
  const std::vector<std::string> problems = on_raw_ranks(tested(), 3, [](const OpenArgs& args, Scene&) {
    OpenArgs twice = args;
    twice.rank = std::min(args.rank, 1);
    twice.timeout = std::chrono::duration<double>(2);
    open_group(tested(), twice);
  });
  EXPECT_THAT(problems[1] + problems[2], HasSubstr("rank 1 is there twice"));
}

TEST_P(Groups, RanksMustAgreeHowManyTheyAre) {
  const std::vector<std::string> problems = on_raw_ranks(tested(), 2, [](const OpenArgs& args, Scene&) {
    OpenArgs other = args;
    other.world_size = other.local_world_size = args.rank == 0 ? 3 : 2;
    other.timeout = std::chrono::duration<double>(2);
    open_group(tested(), other);
  });
  EXPECT_THAT(problems[0] + problems[1], HasSubstr("says that the group has "));
}

INSTANTIATE_TEST_SUITE_P(Backend, Groups, kEveryBackend, backend_name);

// A socket that listens at a port of all addresses.
class Occupied {
 public:
  Occupied() : fd_(::socket(AF_INET6, SOCK_STREAM, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    socklen_t size = sizeof address;
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd_, 4) != 0)
      throw std::runtime_error("cannot listen");
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin6_port);
  }
  ~Occupied() { ::close(fd_); }
  std::uint32_t port() const { return port_; }

 private:
  int fd_;
  std::uint32_t port_ = 0;
};

class GlooGroups : public ProcessTest {
 protected:
  // What opening a group of this rank throws.
  static std::string problem_with(const OpenArgs& args, const std::string& interface = "") {
    return on_raw_ranks(tested(), 1,
                        [&](const OpenArgs&, Scene&) { open_group(tested(), args, interface); })[0];
  }
};

TEST_P(GlooGroups, APortInUseIsNamed) {
  const Occupied occupied;
  EXPECT_THAT(
      problem_with(lonely_args(occupied.port())),
      AllOf(HasSubstr(" is in use on"), HasSubstr("where rank 0 has to listen"), HasSubstr("MASTER_PORT")));
}

TEST_P(GlooGroups, AnAddressThatIsUnknownIsNamed) {
  OpenArgs args = lonely_args(1234);
  args.address = "no-such-host.invalid";
  EXPECT_THAT(problem_with(args), HasSubstr("the address no-such-host.invalid cannot be resolved"));
}

// Something listens there, but it is no rank 0.
TEST_P(GlooGroups, AServerThatIsNoRankEndsInTheTimeout) {
  const Occupied occupied;
  OpenArgs args = lonely_args(occupied.port());
  args.rank = 1;
  args.world_size = 2;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(problem_with(args),
              HasSubstr("these of 2 ranks have not come: 0; nothing answers at 127.0.0.1:"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_P(GlooGroups, AnInterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  EXPECT_THAT(problem_with(lonely_args(free_port()), "eth77"),
              AllOf(HasSubstr("this host has no network interface eth77"), HasSubstr("lo")));
}

TEST_P(GlooGroups, TheVariableThatPyTorchReadsChoosesTheInterfaceUnlessTheOptionDoes) {
  ::setenv("GLOO_SOCKET_IFNAME", "eth77,lo", 1);  // ranks are processes that inherit it
  const std::string by_variable = problem_with(lonely_args(free_port()));
  const std::string by_option = problem_with(lonely_args(free_port()), "eth78");
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
  const std::vector<std::string> problems = on_raw_ranks(tested(), 1, [](const OpenArgs&, Scene&) {
    OpenArgs args = lonely_args(1234);
    args.world_size = 4;
    args.local_world_size = 2;
    open_group(tested(), args);
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
