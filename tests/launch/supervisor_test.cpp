// How processes end, and what the supervisor makes of it.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "core/launch/process.hpp"
#include "tests/launch/supervised.hpp"
#include "tests/support/child_process.hpp"

namespace pipeline::launch {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// What a rank of the program does when another one fails: it waits for the news and leaves with 76. Rank 1
// tells by a file.
constexpr const char* kPeers = R"(
fail() { touch $OUT/failed; exit $1; }
peer() { until [ -e $OUT/failed ]; do sleep 0.02; done; exit ${1:-76}; }
)";

std::string with_peers(const std::string& script) { return kPeers + script; }

TEST(Supervisor, TellsEachRankItsPlace) {
  Supervised run({.processes = 3},
                 R"(echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR" > $OUT/rank-$RANK
echo $MASTER_PORT >> $OUT/ports)");
  EXPECT_EQ(run.wait(), 0) << run.printed();
  EXPECT_EQ(run.file("rank-0"), "0 0 3 3 127.0.0.1\n");
  EXPECT_EQ(run.file("rank-1"), "1 1 3 3 127.0.0.1\n");
  EXPECT_EQ(run.file("rank-2"), "2 2 3 3 127.0.0.1\n");
  const std::string ports = run.file("ports"), port = ports.substr(0, ports.find('\n') + 1);
  EXPECT_GT(std::stoi(port), 1023);
  EXPECT_EQ(ports, port + port + port);
}

// Between choosing the port and serving it nobody else can take it.
TEST(Supervisor, HandsRankZeroTheSocketThatListens) {
  Supervised run({.processes = 2}, R"(
socket=$(echo "$PIPELINE_SUPERVISOR" | sed 's/.*;socket=\(-*[0-9]*\);.*/\1/')
[ $RANK = 1 ] && { echo "$socket"; ls -l /proc/$$/fd; } > $OUT/rank-1
[ $RANK = 0 ] && readlink /proc/$$/fd/$socket > $OUT/rank-0
exit 0)");
  EXPECT_EQ(run.wait(), 0) << run.printed();
  EXPECT_THAT(run.file("rank-0"), HasSubstr("socket:["));
  EXPECT_THAT(run.file("rank-1"), AllOf(HasSubstr("-1\n"), Not(HasSubstr("socket:["))));
}

TEST(Supervisor, OnlyRankZeroHasTheConsole) {
  Supervised run({.processes = 2}, "echo this is $RANK; echo error of $RANK >&2");
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.printed(), "this is 0\nerror of 0\n");
  EXPECT_EQ(run.file("logs/rank-1.out"), "this is 1\nerror of 1\n");
}

TEST(Supervisor, NobodyReadsTheTerminal) {
  Supervised run({.processes = 1, .max_restarts = 1}, "read line; readlink /proc/$$/fd/0");
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.printed(), "/dev/null\n");
}

TEST(Supervisor, KeepsAllThatARankPrints) {
  Supervised run({.processes = 2}, "[ $RANK = 0 ] || seq 1 200000");
  EXPECT_EQ(run.wait(), 0) << run.printed();
  EXPECT_EQ(run.file("logs/rank-1.out").size(), 1288895u);
}

// --fresh moves the folder aside, and makes a new one, while ranks are at work.
TEST(Supervisor, AFolderThatComesLaterGetsAllThatWasPrinted) {
  Supervised run({.processes = 2}, R"(
[ $RANK = 0 ] && { rm -r $OUT/logs; touch $OUT/removed; until [ -e $OUT/said ]; do sleep 0.02; done; sleep 0.1; mkdir $OUT/logs; touch $OUT/made; }
[ $RANK = 1 ] && { until [ -e $OUT/removed ]; do sleep 0.02; done; echo early; touch $OUT/said; until [ -e $OUT/made ]; do sleep 0.02; done; echo late; }
exit 0)");
  EXPECT_EQ(run.wait(), 0) << run.printed();
  EXPECT_EQ(run.file("logs/rank-1.out"), "early\nlate\n");
}

TEST(Supervisor, BlamesTheRankThatFailedAndShowsItsLastWords) {
  Supervised run({.processes = 3}, with_peers(R"(
[ $RANK = 1 ] && { seq 1 100; echo "error: training step 7: no more luck" >&2; fail 3; }
echo "rank $RANK: lost a peer" >&2; peer)"));
  EXPECT_EQ(run.wait(), 1);
  const std::string printed = run.printed();
  EXPECT_THAT(printed, HasSubstr("error: rank 1 on host "));
  EXPECT_THAT(printed, HasSubstr(") exited with code 3\n  the last that rank 1 wrote to stderr:\n  | 82\n"));
  EXPECT_THAT(printed, HasSubstr("| error: training step 7: no more luck\n"));
  EXPECT_THAT(printed, AllOf(Not(HasSubstr("error: rank 0")), Not(HasSubstr("error: rank 2")),
                             Not(HasSubstr("sending SIG"))));
  EXPECT_THAT(run.file("logs/launch.log"), HasSubstr("error: rank 1 on host "));
}

TEST(Supervisor, ShowsTheEndOfTheLog) {
  Supervised run({.processes = 2}, with_peers(R"(
[ $RANK = 1 ] && { mkdir -p $OUT/sft/logs; seq 1 30 > $OUT/sft/logs/rank-1.log; kill -SEGV $$; }
[ $RANK = 0 ] && { until [ -e $OUT/sft/logs/rank-1.log ]; do sleep 0.02; done; sleep 0.1; exit 76; })"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), HasSubstr("was killed by SIGSEGV"));
  EXPECT_THAT(run.printed(), HasSubstr("/sft/logs/rank-1.log:\n  | 26\n  | 27\n  | 28\n  | 29\n  | 30\n"));
}

TEST(Supervisor, NamesTheSignalThatKilledARank) {
  Supervised run({.processes = 2}, "[ $RANK = 1 ] && kill -9 $$; sleep 0.2; exit 76");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), AllOf(HasSubstr("error: rank 1 on host "), HasSubstr("was killed by SIGKILL ("),
                                   HasSubstr("out-of-memory killer")));
}

TEST(Supervisor, RankZeroIsBlamedAlike) {
  Supervised run({.processes = 2}, with_peers("[ $RANK = 0 ] && { echo 'error: mine' >&2; fail 1; }; peer"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), testing::StartsWith("error: mine\nerror: rank 0 on host "));
}

TEST(Supervisor, WhoeverDoesNotLeaveIsKilled) {
  for (const char* obstinate : {"trap '' TERM; while :; do sleep 0.05; done", "kill -STOP $$"}) {
    Supervised run({.processes = 3, .max_restarts = 0, .grace = std::chrono::milliseconds(200)},
                   std::string("echo $$ > $OUT/pid-$RANK; [ $RANK = 1 ] && { sleep 0.1; exit 1; }; [ $RANK = "
                               "0 ] && exec sleep 30; ") +
                       obstinate);
    EXPECT_EQ(run.wait(), 1);
    EXPECT_THAT(run.printed(),
                AllOf(HasSubstr("error: rank 1 on host "),
                      ContainsRegex("ranks 0, 2 did not leave within [0-9.]+ s: sending SIGTERM"),
                      ContainsRegex("rank 2 did not leave within [0-9.]+ s: sending SIGKILL")));
    EXPECT_THAT(run.printed(), Not(HasSubstr("error: rank 2"))) << "its end is a consequence";
    EXPECT_TRUE(gone(std::stoi(run.file("pid-2"))));
  }
}

// A mistake in the configuration is every rank's.
TEST(Supervisor, ErrorsOfTheConfigurationArePrintedOnce) {
  Supervised run({.processes = 3, .max_restarts = 3}, "echo 'error: x.toml:1: wrong' >&2; exit 2");
  EXPECT_EQ(run.wait(), 2);
  EXPECT_EQ(run.printed(), "error: x.toml:1: wrong\n");
}

TEST(Supervisor, AnErrorOfTheConfigurationOnOneRankIsShown) {
  for (const char* others : {"peer", "peer 77"}) {  // 77: they know that it would come again
    Supervised run({.processes = 3, .max_restarts = 3},
                   with_peers("[ $RANK = 2 ] && { echo 'error: rank 2 is another version' >&2; fail 2; }; " +
                              std::string(others)));
    EXPECT_EQ(run.wait(), 2);
    EXPECT_THAT(run.printed(),
                AllOf(HasSubstr("error: rank 2 on host "), HasSubstr("| error: rank 2 is another version\n"),
                      Not(HasSubstr("restart"))));
  }
}

TEST(Supervisor, PassesOnWhatARankSaysOfAFailureElsewhere) {
  Supervised run({.processes = 2}, "echo 'error: rank 7 on host far is gone' >&2; exit 76");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), HasSubstr("error: rank 7 on host far is gone\n"));
  EXPECT_THAT(run.printed(), Not(HasSubstr("error: rank 0 on host")));
}

TEST(Supervisor, SavedOnRequestIsNoFailure) {
  Supervised run({.processes = 3, .max_restarts = 3}, "exit 75");
  EXPECT_EQ(run.wait(), 75);
  EXPECT_EQ(run.printed(), "");
}

// Told to stop in a moment when the ranks do not agree on it, one leaves and the other waits for it.
TEST(Supervisor, WhoeverStaysWhenAnotherWasToldToStopIsMadeToLeave) {
  Supervised run({.processes = 2, .max_restarts = 0, .grace = std::chrono::milliseconds(200)},
                 "[ $RANK = 1 ] && exit 75; exec sleep 30");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), ContainsRegex("rank 0 did not leave within [0-9.]+ s: sending SIGTERM"));
}

TEST(Supervisor, StartsAgainAfterAFailure) {
  Supervised run({.processes = 2, .max_restarts = 2}, with_peers(R"(
attempt=$(echo "$PIPELINE_SUPERVISOR" | sed 's/attempt=\([0-9]*\);.*/\1/')
echo $MASTER_PORT >> $OUT/rank-$RANK
[ $attempt = 2 ] && exit 0
[ $RANK = 1 ] && kill -9 $$
sleep 0.1; exit 76)"));
  EXPECT_EQ(run.wait(), 0) << run.printed();
  EXPECT_THAT(run.printed(), AllOf(HasSubstr("restart 1 of 2: "), HasSubstr("restart 2 of 2: ")));
  const std::string ports = run.file("rank-1");
  EXPECT_EQ(std::count(ports.begin(), ports.end(), '\n'), 3);
  EXPECT_EQ(run.file("rank-0"), ports);
}

TEST(Supervisor, GivesUpInTheEnd) {
  Supervised run({.processes = 2, .max_restarts = 1}, "[ $RANK = 1 ] && exit 1; sleep 0.1; exit 76");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), AllOf(HasSubstr("restart 1 of 1: "), HasSubstr("giving up after 1 restart ")));
}

TEST(Supervisor, AProgramThatIsNotThere) {
  Supervised run({.processes = 2}, "exec /nowhere/to/be/found");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.printed(), HasSubstr("exited with code 127"));
}

TEST(FileLimit, IsRaisedToWhatTheSystemAllows) {
  const pid_t child = tests::in_child([] {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    const rlim_t most = limit.rlim_max;
    limit.rlim_cur = 64;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    raise_file_limit();
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == most && limit.rlim_max == most ? 0
                                                                                                       : 3;
  });
  EXPECT_EQ(tests::status_of(child), 0);
}

// Signals on their way from the user to the ranks.

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
