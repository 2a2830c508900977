// How ranks find each other, and what they are told when they do not.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"
#include "core/peers/peers.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::peers {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

PeersOptions within(std::chrono::duration<double> timeout) {
  PeersOptions options;
  options.timeout = timeout;
  return options;
}

Socket connect_to_run(const Group& run) {
  return connect_to(resolve("127.0.0.1", run.port()).addresses.at(0), seconds(5));
}

// Whether whoever is at the other end closes the connection.
bool is_closed(const Socket& socket) {
  timeval limit{20, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char byte = 0;
  ssize_t n = 0;
  while ((n = ::recv(socket.fd(), &byte, 1, 0)) > 0) {
  }
  return n == 0 || errno == ECONNRESET;
}

void put(const Socket& socket, std::string_view bytes) {
  ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// The next frame; nothing where the connection ends.
std::optional<Frame> next_frame(const Socket& socket) {
  FrameReader reader(kMaxStrangersBody);
  for (;;) {
    if (auto frame = reader.next()) return frame;
    if (reader.receive(socket.fd(), 0) == FrameReader::Input::end) return std::nullopt;
  }
}

// A greeting, and the answer to the challenge that comes back, with `more` in the same breath.
void greet(const Socket& socket, const Hello& hello, std::string_view secret, const std::string& more = {}) {
  const std::string greeting = json_text(hello);
  put(socket, encode(FrameType::hello, greeting));
  const std::optional<Frame> frame = next_frame(socket);
  ASSERT_TRUE(frame && frame->type == FrameType::challenge);
  const Challenge challenge = parse<Challenge>(frame->body);
  EXPECT_EQ(challenge.proof, proof_by(Prover::rank_0, Group::kSecret, challenge.nonce, greeting));
  put(socket, encode(FrameType::answer, proof_by(Prover::other, secret, challenge.nonce, greeting)) + more);
}

TEST(Rendezvous, MissingRanksAreNamedOnAll) {
  Group run(4);
  const auto thrown =
      as_threads(2, [&](int32_t rank) { Peers peers(run.world(rank), within(Milliseconds(700))); });
  for (const std::string& error : thrown)
    EXPECT_THAT(error,
                AllOf(MatchesRegex("rank 0 \\(host [^)]*\\) waited [0-9.]+ s at 127.0.0.1:[0-9]+ for all "
                                   "ranks: ranks 2-3 of 4 are missing \\(there: ranks 0-1 \\(host .*"),
                      HasSubstr("MASTER_PORT"), HasSubstr("launch.rendezvous_seconds")));
}

// The first line told while this rank waits that has `text`; it waits no longer then.
std::string told_with(const std::string& text, const World& world) {
  std::mutex mutex;
  std::string told;
  PeersOptions options = within(seconds(30));
  options.notice = Milliseconds(0);
  const auto is_it = [&] { return told.find(text) != told.npos; };
  options.on_waiting = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    if (!is_it()) told = what;
  };
  options.cancelled = [&] {
    const std::lock_guard lock(mutex);
    return is_it();
  };
  EXPECT_THROW(Peers(world, options), Error);
  return told;
}

// What to do about it is told, too, if that is known.
TEST(Rendezvous, WhoIsMissingIsToldWhileItIsWaitedFor) {
  Group run(3);
  World world = run.world(0);
  world.if_alone = "unset WORLD_SIZE";
  EXPECT_THAT(told_with("are missing", world),
              AllOf(HasSubstr("waiting for all ranks: ranks 1-2 of 3 are missing (there: rank 0 "),
                    HasSubstr("); rank 0 listens at 127.0.0.1:" + std::to_string(run.port()) +
                              "; unset WORLD_SIZE")));
}

TEST(Rendezvous, AnAddressThatIsNotRank0sIsToldByBothSides) {
  Group run(2);
  World world = run.world(0);
  world.local_size = 1;
  world.address = "192.0.2.1";  // an address of a net that nobody has (RFC 5737)
  const std::string place = "192.0.2.1:" + std::to_string(run.port());
  EXPECT_THAT(told_with("is missing", world),
              HasSubstr("rank 0 listens at " + place + ", which is no address of its host " + host_name()));
  world.rank = 1;
  world.listen_socket = -1;
  // Rank 1 is told that there is no way to it, or what this host's network makes of it.
  EXPECT_THAT(told_with(": " + place, world), HasSubstr("waiting for rank 0 at " + place + ": " + place));
}

TEST(Rendezvous, WhatIsFoundInThePlaceOfRank0IsToldWhileItIsWaitedFor) {
  Group run(2);  // listens, and never answers
  World world = run.world(1);
  const std::string place = "127.0.0.1:" + std::to_string(run.port()),
                    waiting = "waiting for rank 0 at " + place + ": ",
                    on = "; tries go on until 30 s have passed";
  const std::string silent = "something accepts connections at " + place + " but does not answer as rank 0";
  EXPECT_EQ(told_with("accepts", world), waiting + silent + on);

  const Socket listening(run.world(0).listen_socket);
  std::thread server([&] {  // it serves something else
    while (const Socket other{::accept(listening.fd(), nullptr, nullptr)}) {
      put(other, "HTTP/1.1 400 Bad Request\r\n\r\n");
      EXPECT_TRUE(is_closed(other));
    }
  });
  EXPECT_EQ(told_with("not a pipeline", world),
            waiting + "the process at " + place + " is not a pipeline run" + on);
  ::shutdown(listening.fd(), SHUT_RDWR);
  server.join();

  Group nobody(2);
  nobody.close_port();
  world = nobody.world(1);
  EXPECT_THAT(told_with("refused", world), HasSubstr(": Connection refused; tries go on"));
  world.address = "no-such-host.invalid";
  EXPECT_THAT(told_with("resolved", world), HasSubstr(": its name cannot be resolved here: "));
}

TEST(Rendezvous, ARankThatGivesUpFirstSaysSo) {
  Group run(3);
  const auto thrown = as_threads(
      2, [&](int32_t rank) { Peers peers(run.world(rank), within(rank == 0 ? seconds(60) : seconds(1))); });
  for (const std::string& error : thrown)
    EXPECT_THAT(error, HasSubstr("waited 1 s for all ranks: rank 2 of 3 is missing"));
}

// Rank 0 waits for others, rank 1 finds nobody.
TEST(Rendezvous, WhoIsToldToStopDoesNotWait) {
  for (const int32_t rank : {0, 1}) {
    Group run(2);
    if (rank == 1) run.close_port();
    PeersOptions options = within(seconds(60));
    const auto begin = std::chrono::steady_clock::now();
    options.cancelled = [&] { return std::chrono::steady_clock::now() - begin > Milliseconds(300); };
    try {
      Peers peers(run.world(rank), options);
      FAIL() << "it did not wait";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), PL_ERROR_CANCELLED);
      EXPECT_THAT(e.what(), HasSubstr("was told to stop while it waited"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
  }
}

// The rank that is told may be the one that has the server.
TEST(Rendezvous, OneThatIsToldToStopStopsAllThatAreThere) {
  for (const int32_t told : {0, 1}) {
    Group run(3);
    const auto thrown = as_threads(2, [&](int32_t rank) {
      PeersOptions options = within(seconds(60));
      const auto begin = std::chrono::steady_clock::now();
      if (rank == told)
        options.cancelled = [=] { return std::chrono::steady_clock::now() - begin > Milliseconds(300); };
      Peers peers(run.world(rank), options);
    });
    for (const std::string& error : thrown)
      EXPECT_THAT(error, HasSubstr("rank " + std::to_string(told) + " (host"));
  }
}

TEST(Rendezvous, TimeoutsHaveTheirCode) {
  Group run(2);
  try {
    Peers peers(run.world(0), within(Milliseconds(200)));
    FAIL() << "it did not wait for rank 1";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), PL_ERROR_TIMEOUT);
  }
}

TEST(Rendezvous, NobodyAtTheAddressIsToldByName) {
  Group run(2);
  run.close_port();
  EXPECT_THAT(error_of([&] { Peers peers(run.world(1), within(Milliseconds(500))); }),
              AllOf(MatchesRegex("rank 1 \\(host [^)]*\\) waited [0-9.]+ s for rank 0 at 127.0.0.1:[0-9]+: "
                                 ".*Connection refused.*"),
                    HasSubstr("MASTER_ADDR")));
}

TEST(Rendezvous, AnUnknownNameIsTold) {
  Group run(2);
  World world = run.world(1);
  world.address = "no-such-host.invalid";
  EXPECT_THAT(error_of([&] { Peers peers(world, within(Milliseconds(300))); }),
              HasSubstr("for rank 0 at no-such-host.invalid:" + std::to_string(run.port()) +
                        ": its name cannot be resolved here: "));
}

TEST(Rendezvous, Rank0MayComeLast) {
  Group run(2);
  run.close_port();
  const auto thrown = as_threads(2, [&](int32_t rank) {
    if (rank == 0) std::this_thread::sleep_for(Milliseconds(300));
    Peers peers(run.world(rank), within(seconds(20)));
    peers.barrier("all");
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
}

TEST(Rendezvous, ABusyPortFailsAtOnceAndNamesItsOwner) {
  Group run(2);
  World world = run.world(0);
  ::close(std::exchange(world.listen_socket, -1));  // the test itself still listens there
  EXPECT_THAT(error_of([&] { Peers peers(world, {}); }),
              AllOf(HasSubstr("cannot listen at 127.0.0.1:" + std::to_string(run.port()) +
                              ": the port is in use by process " + std::to_string(::getpid())),
                    HasSubstr("--master-port")));
}

TEST(Rendezvous, TheNextFreePortIsFoundByAll) {
  Group busy(2);  // listens, and never answers
  const auto thrown = as_threads(2, [&](int32_t rank) {
    World world = busy.world(rank);
    if (world.listen_socket >= 0) ::close(std::exchange(world.listen_socket, -1));
    world.port_tries = 5;
    Peers peers(world, within(seconds(60)));
    peers.barrier("all");
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
}

TEST(Rendezvous, StrangersAreTurnedAwayAndDoNoHarm) {
  Group run(2);
  const auto thrown = as_threads(3, [&](int32_t rank) {
    if (rank < 2) {
      if (rank == 1) std::this_thread::sleep_for(Milliseconds(500));
      Peers peers(run.world(rank), within(seconds(30)));
      peers.barrier("all");
      return;
    }
    const Socket http = connect_to_run(run), huge = connect_to_run(run), early = connect_to_run(run),
                 empty = connect_to_run(run), unreadable = connect_to_run(run), deep = connect_to_run(run);
    put(http, "GET / HTTP/1.1\r\n\r\n");
    put(huge, head_of(FrameType::hello, 0, {}, uint64_t{1} << 60));
    put(early, encode(FrameType::exchange, "I am nobody"));
    put(empty, encode(FrameType::hello));
    put(unreadable, encode(FrameType::hello, R"({"rank": "one"})"));
    put(deep, encode(FrameType::hello, std::string(4000, '[')));
    for (const Socket* socket : {&http, &huge, &early, &empty, &unreadable, &deep})
      EXPECT_TRUE(is_closed(*socket));
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

// A stranger says that it is rank 1, or that there are other ranks: it neither ends the run nor is admitted.
TEST(Rendezvous, WhoDoesNotKnowTheSecretIsNobody) {
  Group run(2);
  const auto thrown = as_threads(3, [&](int32_t rank) {
    if (rank < 2) {
      if (rank == 1) std::this_thread::sleep_for(Milliseconds(500));
      Peers peers(run.world(rank), within(seconds(30)));
      peers.barrier("all");
      return;
    }
    const Socket twin = connect_to_run(run), larger = connect_to_run(run), hasty = connect_to_run(run);
    greet(twin, hello_of(run.world(1)), "a guess", encode(FrameType::admitted));
    const std::optional<Frame> answer = next_frame(twin);
    ASSERT_TRUE(answer && answer->type == FrameType::refused);
    EXPECT_THAT(parse<Refusal>(answer->body).why, HasSubstr("its run secret differs from rank 0's"));
    Hello hello = hello_of(run.world(1));
    hello.size = 5;
    greet(larger, hello, "");
    put(hasty, encode(FrameType::hello, json_text(hello_of(run.world(1)))) + encode(FrameType::admitted));
    for (const Socket* socket : {&twin, &larger, &hasty}) EXPECT_TRUE(is_closed(*socket));
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

TEST(Rendezvous, RanksWithDifferentSecretsAreToldWhatToDo) {
  Group run(2);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    World world = run.world(rank);
    if (rank == 1) world.secret = "another";
    Peers peers(world, within(seconds(1)));
  });
  EXPECT_THAT(
      thrown[0],
      AllOf(HasSubstr("rank 1 of 2 is missing"), HasSubstr("the last one from 127.0.0.1:"),
            HasSubstr("it calls itself rank 1, and its run secret differs from rank 0's: make run.dir"),
            HasSubstr("PIPELINE_RUN_SECRET")));
  EXPECT_THAT(thrown[1], AllOf(HasSubstr("have different run secrets"), HasSubstr("PIPELINE_RUN_SECRET")));
}

// An impostor at rank 0's port cannot prove itself either, and learns nothing that it could use.
TEST(Rendezvous, WhoDoesNotProveToBeRank0IsNotJoined) {
  Group run(2);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    if (rank == 1) {
      Peers peers(run.world(1), within(seconds(1)));
      return;
    }
    const World world = run.world(0);
    const Socket listening(world.listen_socket);
    const Socket other(::accept(listening.fd(), nullptr, nullptr));
    ASSERT_TRUE(next_frame(other));
    put(other, encode(FrameType::admit));
    EXPECT_TRUE(is_closed(other));
  });
  EXPECT_THAT(thrown[1], HasSubstr("for rank 0 at 127.0.0.1:"));
}

// With more connections than a process may have open the run goes on, and rank 0 can open what it needs.
TEST(Rendezvous, IdleConnectionsUseUpNothing) {
  constexpr int kIdle = 1100;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 2 * kIdle)
    GTEST_SKIP() << "needs " << 2 * kIdle << " open files in a process, and ulimit -Hn allows "
                 << limit.rlim_max;
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  Group run(2);
  const auto thrown = as_ranks(run, {}, [&](int32_t rank, Peers& peers) {
    peers.barrier("start");
    if (rank == 1) {
      std::vector<Socket> idle;
      for (int i = 0; i < kIdle; ++i) idle.push_back(connect_to_run(run));
      for (int i = 0; i < kIdle - 64; ++i) EXPECT_TRUE(is_closed(idle[static_cast<std::size_t>(i)])) << i;
      peers.barrier("flooded");
      return;
    }
    peers.barrier("flooded");
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
}

TEST(Rendezvous, AnotherRunIsRefused) {
  Group run(2);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    World world = run.world(rank);
    if (rank == 1) world.run_id = "another";
    Peers peers(world, within(seconds(1)));
  });
  EXPECT_THAT(thrown[0], HasSubstr("rank 1 of 2 is missing"));
  EXPECT_THAT(thrown[0], HasSubstr("another run listens"));  // whom it turned away
  EXPECT_THAT(thrown[1], HasSubstr("its id is 'a test', this rank's is 'another'"));
}

TEST(Rendezvous, TheSameRankTwiceIsAnErrorOnAll) {
  Group run(3);
  const auto thrown = as_threads(
      3, [&](int32_t thread) { Peers peers(run.world(std::min(thread, 1)), within(seconds(30))); });
  for (const std::string& error : thrown)
    EXPECT_THAT(error, AllOf(HasSubstr("two processes say that they are rank 1: process "),
                             HasSubstr("--node-rank")));
}

TEST(Rendezvous, DifferentWorldSizesAreAnErrorOnAll) {
  Group run(3);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    World world = run.world(rank);
    if (rank == 1) world.size = 4;
    Peers peers(world, within(seconds(30)));
  });
  for (const std::string& error : thrown)
    EXPECT_THAT(
        error, AllOf(HasSubstr("was started as one of 4 processes, rank 0 (host"), HasSubstr("as one of 3")));
}

TEST(Rendezvous, DifferentVersionsAreAnErrorOnAll) {
  Group run(2);
  std::string refusal;
  const auto thrown = as_threads(2, [&](int32_t rank) {
    if (rank == 0) return Peers(run.world(rank), within(seconds(30))).barrier("all");
    Hello hello = hello_of(run.world(1));
    hello.version = "0.9.0";
    const Socket socket = connect_to_run(run);
    greet(socket, hello, Group::kSecret);
    const std::optional<Frame> answer = next_frame(socket);
    ASSERT_TRUE(answer);
    refusal = parse<Refusal>(answer->body).why;
  });
  EXPECT_THAT(thrown[0], HasSubstr("runs version 0.9.0 of the program, rank 0"));
  EXPECT_EQ(refusal, thrown[0]);
}

TEST(Rendezvous, LatecomersDoNotEndARun) {
  Group run(2);
  const auto thrown = as_ranks(run, {}, [&](int32_t rank, Peers& peers) {
    peers.barrier("start");
    if (rank == 1) {
      World twin = run.world(1);
      EXPECT_THAT(error_of([&] { Peers second(twin, within(seconds(1))); }),
                  HasSubstr("two processes say that they are rank 1"));
      twin.size = 5;
      EXPECT_THAT(error_of([&] { Peers second(twin, within(seconds(1))); }),
                  HasSubstr("was started as one of 5 processes"));
    }
    peers.barrier("end");
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
}

TEST(Rendezvous, ARankLostWhileOthersAreMissingEndsIt) {
  Group run(3);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    if (rank == 0) {
      Peers peers(run.world(0), within(seconds(60)));
      return;
    }
    const Socket socket = connect_to_run(run);
    greet(socket, hello_of(run.world(1)), Group::kSecret, encode(FrameType::admitted));
    std::this_thread::sleep_for(Milliseconds(200));
  });
  EXPECT_THAT(thrown[0], HasSubstr("rank 1 (host "));
  EXPECT_THAT(thrown[0], HasSubstr("was lost"));
}

// The rank speaks before its turn, in the same breath in which it comes in.
TEST(Rendezvous, ARankThatDoesNotWaitForTheOthersEndsIt) {
  Group run(3);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    if (rank == 0) {
      Peers peers(run.world(0), within(seconds(60)));
      return;
    }
    const Socket socket = connect_to_run(run);
    greet(socket, hello_of(run.world(1)), Group::kSecret,
          encode(FrameType::admitted) + encode(FrameType::exchange, "too early"));
    EXPECT_TRUE(is_closed(socket));
  });
  EXPECT_THAT(thrown[0], HasSubstr("was lost: a message came that has no place here"));
}

// Somebody who connected and went away again has never been there.
TEST(Rendezvous, ARankMayComeAgain) {
  Group run(2);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    if (rank == 1) {
      const Socket socket = connect_to_run(run);
      greet(socket, hello_of(run.world(1)), Group::kSecret);
    }
    Peers peers(run.world(rank), within(seconds(30)));
    peers.barrier("all");
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
}

}  // namespace
}  // namespace pipeline::peers
