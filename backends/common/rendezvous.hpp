// How the ranks of a group over c10d find each other: a TCPStore in rank 0's process.
#pragma once

#include <pipeline/context.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backends/common/network.hpp"

namespace pipeline::backends {

struct Meeting {
  std::string address;
  uint32_t port;
  std::string group;
  int32_t rank;
  int32_t world_size;
  double timeout_seconds;
};

// All of it [main].
class Rendezvous {
 public:
  // Blocks until every rank is there. `facts` is what each of them tells the others; it must not be empty.
  Rendezvous(const Context& context, Meeting meeting, const std::string& facts);

  const std::vector<std::string>& facts() const { return facts_; }  // of each rank
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // Of the time to meet in.
  double seconds_left() const;

  // What each rank has to say about `what`; blocks for the rest of the time to meet in.
  std::vector<std::string> exchange(const std::string& what, const std::string& mine);
  // The address of this host by which the others reach it.
  LocalAddress local_address();

 private:
  using Clock = std::chrono::steady_clock;

  void try_to_meet(const std::string& facts);
  void connect();
  void announce(const std::string& facts);
  void check_world_size();
  std::vector<int32_t> missing() const;
  bool is_there(const std::string& key);  // now, or soon
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
