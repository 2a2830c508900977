// Direct connections between all ranks, over c10d's ProcessGroupGloo, and what a rank has to know about this
// host's network for them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "backends/common/call.hpp"

namespace pipeline::backends::gloo {

// What one rank has for another, or wants from it. A piece of no bytes is not sent.
struct Piece {
  int32_t peer;
  void* data;
  size_t bytes;
};

// A connection has failed.
class PeerError : public std::runtime_error {
 public:
  PeerError(int32_t rank, const std::string& words) : std::runtime_error(words), rank_(rank) {}
  int32_t rank() const { return rank_; }

 private:
  int32_t rank_;
};

// Messages of a group. Only point-to-point messages of Gloo's are used: unlike its collectives they can be
// interrupted, and leave the order of sums to the caller.
class Mesh {
 public:
  // Connects to all ranks through `ip`, an address of this host.
  Mesh(const c10::intrusive_ptr<c10d::Store>& store, int32_t rank, int32_t world_size, const std::string& ip,
       double timeout_seconds);
  ~Mesh();

  struct Message {
    int32_t peer;
    c10::intrusive_ptr<c10d::Work> work;
  };

  // Messages under way. When it is destroyed nothing touches their memory any more.
  class Exchange {
   public:
    Exchange() = default;
    Exchange(Mesh& mesh, std::vector<Message> messages);
    Exchange(Exchange&& other) noexcept;
    Exchange& operator=(Exchange&& other) noexcept;
    ~Exchange() { forget(); }
    // Throws PeerError when a connection fails, Error when the mesh is interrupted.
    void wait();

   private:
    void forget() noexcept;
    Mesh* mesh_ = nullptr;
    std::vector<Message> messages_;
  };

  // Every rank takes tags in the same order. A message goes where its tag is received, and sizes must match:
  // Gloo ends the process where they do not. What is received early arrives sooner.
  uint32_t next_tag() { return tag_++; }
  Exchange start(uint32_t tag, std::span<const Piece> receives, std::span<const Piece> sends);
  void exchange(std::span<const Piece> receives, std::span<const Piece> sends) {
    start(next_tag(), receives, sends).wait();
  }

  // Every exchange, under way or to come, throws. [any-thread]
  void interrupt() noexcept;
  // Closes all connections, which the other ranks notice. No exchange may be under way.
  void disconnect();

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  uint32_t tag_ = 0;
  // Finished works that wait to be freed: freeing one at once would mean to yield the processor until Gloo's
  // thread has let go of it, which takes milliseconds where others compute.
  std::deque<c10::intrusive_ptr<c10d::Work>> retired_;

  std::mutex mutex_;
  bool interrupted_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> active_;
};

// One of this host's addresses and the interface that has it. `name` is empty where it cannot be told.
struct LocalAddress {
  std::string ip;
  std::string name;
  bool loopback = false;
};

// The address that packets to `host` leave from; throws where `host` is unknown or out of reach.
LocalAddress address_towards(const std::string& host);
// The address of interface `name`; throws with a list of those that there are.
LocalAddress address_of_interface(const std::string& name);
std::string host_name();

// One collective over a Mesh, whose ranks have agreed on the call. `scratch` grows to a bound that does not
// depend on the call, and is kept from call to call.
void run_collective(Mesh& mesh, const Call& call, int32_t rank, int32_t world_size,
                    std::vector<char>& scratch);

}  // namespace pipeline::backends::gloo
