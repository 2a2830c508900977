// Ranks of a run within a test: as threads of it, or as processes that can be killed and stopped.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/world.hpp"
#include "core/peers/peers.hpp"

namespace pipeline::peers {

using Milliseconds = std::chrono::milliseconds;

// A run of `size` ranks on this host, at a port that is free. Rank 0 gets a socket that listens there
// already, as from the supervisor.
class Group {
 public:
  explicit Group(int32_t size);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  static constexpr const char* kSecret = "only the ranks know";
  World world(int32_t rank);
  int32_t size() const { return size_; }
  uint16_t port() const { return port_; }
  // The port is free again, and rank 0 has to open it itself.
  void close_port();

 private:
  const int32_t size_;
  uint16_t port_ = 0;
  int listener_ = -1;
};

// Remembers what on_failure was called with.
class Heard {
 public:
  void operator()(const Failure& failure);
  // The failure, if it comes within `limit`.
  std::optional<Failure> wait(Milliseconds limit);
  int times();

 private:
  struct State;
  std::shared_ptr<State> state_ = make();
  static std::shared_ptr<State> make();
};

// Runs each rank in a thread; what each of them threw, empty if nothing.
std::vector<std::string> as_threads(int32_t ranks, const std::function<void(int32_t rank)>& part);
// Runs each rank in a thread, with a Peers of its own.
std::vector<std::string> as_ranks(Group& run, const PeersOptions& options,
                                  const std::function<void(int32_t rank, Peers& peers)>& part);
std::vector<std::string> nothing_thrown(int32_t ranks);

// What `part` throws.
std::string error_of(const std::function<void()>& part);

// A rank in a process of its own, which ends without destructors when `part` returns. To be made while the
// test has one thread. Killed with its owner.
class Process {
 public:
  Process(World world, PeersOptions options, const std::function<void(Peers& peers)>& part);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  int wait();  // the exit code; 3: `part` threw

 private:
  pid_t pid_;
};

}  // namespace pipeline::peers
