// Signals on their way from the user to the ranks.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "tests/launch/supervised.hpp"

namespace pipeline::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

// Ranks behave as the program does: the first signal asks for a checkpoint, the second ends it at once.
constexpr const char* kLikeTheProgram = R"(
count=0
on() { count=$((count + 1)); echo $1 >> $OUT/got-$RANK; [ $count = 2 ] && exit $((128 + $2)); }
trap 'on INT 2' INT; trap 'on TERM 15' TERM; trap 'on USR1 10' USR1; trap 'on HUP 1' HUP
echo $$ > $OUT/pid-$RANK; mv $OUT/pid-$RANK $OUT/ready-$RANK
)";

std::string like_the_program(const std::string& script) { return kLikeTheProgram + script; }

void wait_until_ready(const Supervised& run, int processes) {
  for (int rank = 0; rank < processes; ++rank) run.wait_for("ready-" + std::to_string(rank));
}

TEST(SupervisorSignals, EachReachesEveryRankOnce) {
  for (const auto& [signal, name] :
       {std::pair{SIGINT, "INT"}, {SIGTERM, "TERM"}, {SIGUSR1, "USR1"}, {SIGHUP, "HUP"}}) {
    Supervised run({.processes = 2, .max_restarts = 1},
                   like_the_program("until [ $count = 1 ]; do sleep 0.02; done; sleep 0.2; exit 75"));
    wait_until_ready(run, 2);
    run.send(signal);
    EXPECT_EQ(run.wait(), 75) << run.printed();
    EXPECT_EQ(run.file("got-0"), std::string(name) + "\n");
    EXPECT_EQ(run.file("got-1"), std::string(name) + "\n");
    EXPECT_EQ(run.printed(), "");
  }
}

TEST(SupervisorSignals, TheSecondOneIsPassedOnToo) {
  Supervised run({.processes = 2, .max_restarts = 1}, like_the_program("while :; do sleep 0.02; done"));
  wait_until_ready(run, 2);
  run.send(SIGINT);
  run.wait_for("got-0");
  run.wait_for("got-1");
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.printed();
  EXPECT_EQ(run.printed(), "") << "nobody is to blame, and nothing starts again";
}

// The signal comes in the moments before a rank has its handlers.
TEST(SupervisorSignals, ARankThatDiesOfItIsNotToBlame) {
  Supervised run({.processes = 2, .max_restarts = 1}, "touch $OUT/ready-$RANK; exec sleep 30");
  wait_until_ready(run, 2);
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(), 143);
  EXPECT_EQ(run.printed(), "");
}

TEST(SupervisorSignals, NothingStartsAgainAfterASignal) {
  Supervised run(
      {.processes = 2, .max_restarts = 3},
      like_the_program(
          "until [ $count = 1 ]; do sleep 0.02; done; [ $RANK = 1 ] && exit 1; sleep 0.2; exit 76"));
  wait_until_ready(run, 2);
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), HasSubstr("error: rank 1 on host "));
  EXPECT_THAT(run.printed(), Not(HasSubstr("restart")));
}

TEST(SupervisorSignals, RanksDoNotOutliveTheSupervisor) {
  Supervised run({.processes = 3}, like_the_program("while :; do sleep 0.02; done"));
  wait_until_ready(run, 3);
  run.send(SIGKILL);
  EXPECT_EQ(run.wait(), 1000 + SIGKILL);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(gone(std::stoi(run.file("ready-" + std::to_string(rank)))));
}

TEST(SupervisorSignals, CtrlZStopsAllAndFgGoesOn) {
  Supervised run({.processes = 2}, like_the_program("until [ -e $OUT/go ]; do sleep 0.02; done"));
  wait_until_ready(run, 2);
  run.send(SIGTSTP);
  const pid_t ranks[] = {std::stoi(run.file("ready-0")), std::stoi(run.file("ready-1"))};
  EXPECT_TRUE(stopped(ranks[0]));
  EXPECT_TRUE(stopped(ranks[1]));
  EXPECT_TRUE(stopped(run.pid()));
  run.send(SIGCONT);
  std::filesystem::create_directory(run.folder() / "go");
  EXPECT_EQ(run.wait(), 0) << run.printed();
}

TEST(SupervisorSignals, RanksAreOutOfReachOfTheTerminal) {
  Supervised run({.processes = 2}, like_the_program("until [ -e $OUT/go ]; do sleep 0.02; done"));
  wait_until_ready(run, 2);
  const pid_t rank = std::stoi(run.file("ready-1"));
  EXPECT_EQ(::getpgid(rank), rank);
  EXPECT_EQ(::getsid(rank), ::getsid(0));
  std::filesystem::create_directory(run.folder() / "go");
  EXPECT_EQ(run.wait(), 0);
}

}  // namespace
}  // namespace pipeline::launch
