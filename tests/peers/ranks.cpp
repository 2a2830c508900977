#include "tests/peers/ranks.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/support/test_files.hpp"

namespace pipeline::peers {

Group::Group(int32_t size) : size_(size), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, any, length) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, any, &length) != 0)
    throw std::runtime_error("no free port");
  port_ = ntohs(address.sin_port);
}

Group::~Group() { close_port(); }

void Group::close_port() {
  if (listener_ >= 0) ::close(std::exchange(listener_, -1));
}

World Group::world(int32_t rank) {
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size_;
  world.address = "127.0.0.1";
  world.port = port_;
  world.run_id = "a test";
  world.secret = kSecret;
  if (rank == 0 && listener_ >= 0) world.listen_socket = ::dup(listener_);
  return world;
}

struct Heard::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Failure> failure;
  int times = 0;
};

std::shared_ptr<Heard::State> Heard::make() { return std::make_shared<State>(); }

void Heard::operator()(const Failure& failure) {
  std::lock_guard lock(state_->mutex);
  state_->failure = failure;
  ++state_->times;
  state_->changed.notify_all();
}

std::optional<Failure> Heard::wait(Milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, limit, [&] { return state_->failure.has_value(); });
  return state_->failure;
}

int Heard::times() {
  std::lock_guard lock(state_->mutex);
  return state_->times;
}

std::vector<std::string> as_threads(int32_t ranks, const std::function<void(int32_t)>& part) {
  std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        part(rank);
      } catch (const std::exception& e) {
        thrown[static_cast<std::size_t>(rank)] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

std::vector<std::string> as_ranks(Group& run, const PeersOptions& options,
                                  const std::function<void(int32_t, Peers&)>& part) {
  return as_threads(run.size(), [&](int32_t rank) {
    Peers peers(run.world(rank), options);
    part(rank, peers);
  });
}

std::vector<std::string> nothing_thrown(int32_t ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

std::string error_of(const std::function<void()>& part) {
  return tests::message_of<std::exception>([&] { part(); });
}

Process::Process(World world, PeersOptions options, const std::function<void(Peers&)>& part)
    : pid_(::fork()) {
  if (pid_ != 0) {
    if (world.listen_socket >= 0) ::close(world.listen_socket);
    return;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    Peers peers(world, std::move(options));
    part(peers);
    ::_exit(0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", world.rank, e.what());
    ::_exit(3);
  }
}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const { ::kill(pid_, number); }

int Process::wait() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace pipeline::peers
