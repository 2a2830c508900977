// How the ranks of a group over c10d find each other: a TCPStore in rank 0's process.
#pragma once

#include <pipeline/context.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace pipeline::backends {

struct Meeting {
  std::string address;
  uint32_t port;
  std::string group;
  int32_t rank;
  int32_t world_size;
  double timeout_seconds;
};

// Meeting is [main]; the rest [any-thread].
class Rendezvous {
 public:
  // Blocks until every rank is there. `facts` is what each of them tells the others; it must not be empty.
  Rendezvous(const Context& context, Meeting meeting, const std::string& facts);

  const std::vector<std::string>& facts() const { return facts_; }  // of each rank
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // Of the time to meet in.
  double seconds_left() const;

  // Tells all ranks why the group ended, and asks for that; the first reason stays. Neither waits for long,
  // even when rank 0 has stopped.
  void say_why(const std::string& why) noexcept;
  std::optional<std::string> why() noexcept;
  // This rank needs the group no longer; whether `rank` has said so.
  void say_goodbye() noexcept;
  bool has_left(int32_t rank) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void try_to_meet(const std::string& facts);
  void connect();
  void announce(const std::string& facts);
  void check_world_size();
  std::vector<int32_t> missing() const;
  std::chrono::milliseconds slice() const;

  const Context context_;
  const Meeting meeting_;
  const Clock::time_point deadline_;
  const std::string identity_;  // of this process among those that may claim the same rank
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::string> facts_;
};

// c10d prints a stack trace with each failure that it throws, unless told otherwise by TORCH_CPP_LOG_LEVEL.
void silence_c10d();

}  // namespace pipeline::backends
