// Several processes, and what becomes of a run when one of them dies, hangs or is told to stop.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Clock = std::chrono::steady_clock;

class Faults : public testing::Test, public SmallJob {
 protected:
  // The command of the run in the folder "run", which is long enough to be interrupted.
  Words command(const Words& sets) const {
    return pipeline_command(Words{"run", "train.toml", "train.max_steps=300", "evaluate.every=0",
                                  "checkpoint.every=4", "checkpoint.keep=2", "launch.processes=3"} +
                            sets);
  }
  size_t steps() const { return read_lines(path("run/metrics.jsonl")).size(); }
  // Three ranks that have trained for some steps.
  bool trains(const Process& run, size_t beyond = 0) const {
    return eventually(
               [&] { return (run.children().size() == 3 && steps() > beyond + 6) || !run.is_running(); }) &&
           run.is_running();
  }
  // The curve of a run without any fault, in one process.
  Words undisturbed() const {
    call("run", {"run.dir=undisturbed", "train.max_steps=300", "evaluate.every=0", "checkpoint.every=0"})
        .ended(0);
    return curve("undisturbed");
  }
  void expect_seconds_since(Clock::time_point start, double most) const {
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), most);
  }
};

// The port at which a rank's run meets.
uint16_t port_of(pid_t rank) {
  std::istringstream variables(read_text("/proc/" + std::to_string(rank) + "/environ"));
  for (std::string variable; std::getline(variables, variable, '\0');)
    if (variable.starts_with("MASTER_PORT="))
      return static_cast<uint16_t>(std::stoi(variable.substr(variable.find('=') + 1)));
  return 0;
}

// Connections to a port of this host that say nothing.
class Strangers {
 public:
  explicit Strangers(uint16_t port) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(port);
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  ~Strangers() {
    for (const int socket : sockets_) ::close(socket);
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  bool come() {
    sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(sockets_.back(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0;
  }

 private:
  sockaddr_in address_{};
  std::vector<int> sockets_;
};

TEST_F(Faults, AKilledRankEndsTheRunAndTheSameCommandGoesOn) {
  for (const size_t which : {0u, 2u}) {
    const size_t before = steps();
    Process run(command({"launch.processes=3"}), folder());
    ASSERT_TRUE(trains(run, before)) << run.wait().err;
    ::kill(run.children().at(which), SIGKILL);
    const auto killed = Clock::now();
    const Result result = run.wait();
    expect_seconds_since(killed, 15);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, testing::StartsWith("error: rank " + std::to_string(which) + " on host "));
    EXPECT_THAT(result.err, AllOf(HasSubstr("was killed by SIGKILL"),
                                  HasSubstr("the end of run/logs/rank-" + std::to_string(which) + ".log")));
  }
  const Result run = Process(command({"launch.processes=2"}), folder()).wait().ended(0);
  EXPECT_EQ(curve("run"), undisturbed());
}

TEST_F(Faults, TheErrorOfOneRankIsTheOnlyOneThatIsTold) {
  Process run(command({"train.max_steps=100000", "checkpoint.every=0"}), folder());
  ASSERT_TRUE(trains(run));
  ::kill(run.children().at(1), SIGABRT);
  const Result result = run.wait().ended(1);
  EXPECT_THAT(result.err, testing::StartsWith("error: rank 1 on host "));
  EXPECT_THAT(result.err, HasSubstr("SIGABRT"));
  EXPECT_EQ(result.err.find("error: ", 1), std::string::npos) << result.err;
}

TEST_F(Faults, StartsAgainByItself) {
  Process run(command({"launch.max_restarts=2"}), folder());
  ASSERT_TRUE(trains(run));
  ::kill(run.children().at(1), SIGKILL);
  ASSERT_TRUE(eventually(
      [&] { return run.output().find("continued from run/checkpoints/step-") != std::string::npos; }));
  const Result result = run.wait().ended(0);
  EXPECT_THAT(result.out + result.err, HasSubstr("restart 1 of 2"));
  EXPECT_EQ(curve("run"), undisturbed());
}

TEST_F(Faults, ASignalToTheCommandOrToAnyRankSavesOnAll) {
  for (const int which : {-1, 0, 2}) {
    const size_t before = steps();
    Process run(command({}), folder());
    ASSERT_TRUE(trains(run, before)) << run.wait().err;
    if (which < 0)
      run.signal(SIGTERM);
    else
      ::kill(run.children().at(static_cast<size_t>(which)), SIGUSR1);
    EXPECT_THAT(run.wait().ended(75).out, HasSubstr("saving at step"));
  }
  const Result run = Process(command({}), folder()).wait().ended(0);
  EXPECT_EQ(curve("run"), undisturbed());
}

// The signal comes at any moment of the start, whoever waits for whom then.
TEST_F(Faults, ASignalWhileTheRunStartsEndsIt) {
  for (int moment = 0; moment < 8; ++moment) {
    Process run(command({"backend.plugin=gloo", "train.max_steps=100000"}), folder());
    std::this_thread::sleep_for(std::chrono::milliseconds(300 + 150 * moment));
    const auto signalled = Clock::now();
    run.signal(SIGTERM);
    const Result result = run.wait();
    expect_seconds_since(signalled, 40);
    EXPECT_THAT(result.code, testing::AnyOf(75, 128 + SIGTERM)) << moment << ": " << result.err;
  }
}

TEST_F(Faults, AStoppedRankIsNamed) {
  for (const size_t which : {0u, 1u}) {
    const size_t before = steps();
    Process run(command({"train.max_steps=100000", "launch.stall_seconds=3"}), folder());
    ASSERT_TRUE(trains(run, before)) << run.wait().err;
    ::kill(run.children().at(which), SIGSTOP);
    const auto stopped = Clock::now();
    const Result result = run.wait();
    expect_seconds_since(stopped, 3 + 15);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("rank " + std::to_string(which)), HasSubstr("no sign of life")))
        << which;
  }
}

// There are as many strangers as a shell lets a process have files, and they stay as long as they can.
TEST_F(Faults, StrangersAtTheMeetingPortKeepNoCheckpointFromBeingWritten) {
  constexpr rlim_t kStrangers = 1100, kFiles = kStrangers + 100;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kFiles)
    GTEST_SKIP() << "needs " << kFiles << " open files in a process, and ulimit -Hn allows "
                 << limit.rlim_max;
  limit.rlim_cur = std::max(limit.rlim_cur, kFiles);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  Words words = command({"train.max_steps=100000", "checkpoint.every=1", "checkpoint.keep=1"});
  words.insert(words.begin(), {"/bin/sh", "-c", "ulimit -S -n 1024 && exec \"$@\"", "sh"});
  Process run(words, folder());
  ASSERT_TRUE(trains(run)) << run.wait().err;

  Strangers strangers(port_of(run.children().at(0)));
  for (rlim_t i = 0; i < kStrangers; ++i) ASSERT_TRUE(strangers.come()) << i << ": " << std::strerror(errno);
  const size_t before = steps();
  EXPECT_TRUE(eventually([&] { return steps() > before + 20 || !run.is_running(); }));
  run.signal(SIGTERM);
  EXPECT_THAT(run.wait().ended(75).out, testing::Not(HasSubstr("no checkpoint was written")));
}

TEST_F(Faults, NoProcessOutlivesTheCommand) {
  Process run(command({"train.max_steps=100000"}), folder());
  ASSERT_TRUE(trains(run));
  const std::vector<pid_t> ranks = run.children();
  run.signal(SIGKILL);
  run.wait();
  for (const pid_t rank : ranks) EXPECT_TRUE(eventually([&] { return ::kill(rank, 0) != 0; })) << rank;
}

}  // namespace
}  // namespace pipeline::tests
