#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/socket.hpp"
#include "core/base/world.hpp"
#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"

namespace pipeline::peers {

// How a rank joins: finds rank 0, identifies itself and is admitted. Retries until the time is up, since
// rank 0 may start last.
class Join {
 public:
  // cancelled: see Options; may be empty. `waiting` hears what the tries come to, and must outlive it;
  // nullptr: nobody does.
  Join(const World& world, Seconds timeout, std::function<bool()> cancelled, Waiting* waiting);

  // Returns a connection on which this rank is admitted. Throws Error if turned away or cancelled, or
  // PL_ERROR_TIMEOUT with the last problem and remedies.
  Socket connect_and_join();
  // Is admitted on an existing connection.
  void join(const Socket& socket);

 private:
  std::optional<Socket> try_port(uint16_t port);
  bool try_to_join(const Socket& socket, Clock::time_point until);
  bool no_answer();
  void turned_away(const Refusal& refusal);
  [[noreturn]] void time_out() const;
  std::optional<Frame> next_frame(int fd, FrameReader& reader, Clock::time_point until) const;
  void check_cancelled() const;
  void tell(const std::string& problem) const;

  const World world_;
  const std::function<bool()> cancelled_;
  const Clock::time_point begun_ = Clock::now();
  const Clock::time_point deadline_;
  Waiting* const waiting_;
  bool tried_ = false;                                  // all there is to try
  std::string place_;                                   // that is tried
  std::string problem_ = "there was no time to try";    // of the last try
  std::optional<Clock::time_point> refused_, unknown_;  // since when
};

}  // namespace pipeline::peers
