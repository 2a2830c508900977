// How the ranks of a group learn that one of them is gone, and why: each holds a connection to each.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace pipeline::backends {

// A rank listens, and accepts nobody until it leaves: then it tells everyone why. One that dies says nothing,
// but its host ends the connections at once, also when the process is in the middle of something else. It
// needs no answer of a rank that computes or is stopped.
class Watch {
 public:
  struct Peer {
    std::string ip;
    uint32_t port;
  };
  enum class End { kLeft, kFailed, kDied };
  // `why`: of a rank that failed. On the watch's own thread, at most once for each rank.
  using Told = std::function<void(int32_t rank, End end, const std::string& why)>;

  // Begins to listen, at all addresses of the family of `like`. Throws.
  explicit Watch(const std::string& like);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  uint32_t port() const { return port_; }
  // Begins to watch all of `peers` but number `rank`. Throws where one cannot be reached.
  void start(const std::vector<Peer>& peers, int32_t rank, Told told);
  // Tells the others that this rank leaves; empty: because all is done. Waits for nobody; once.
  void leave(const std::string& why) noexcept;

 private:
  struct Watched {
    int32_t rank;
    int fd;
    std::string said;
  };

  void watch();
  bool hear(Watched& peer);

  int listening_ = -1;
  int stop_ = -1;  // an event for the thread
  uint32_t port_ = 0;
  std::vector<Watched> watched_;
  Told told_;
  std::atomic<bool> left_ = false;
  std::thread thread_;
};

}  // namespace pipeline::backends
