#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"

namespace pipeline::peers {

using Deadline = std::optional<Clock::time_point>;

// Waits until there is room (POLLOUT) or something to read (POLLIN); false when the time is up.
bool wait_for(int fd, short what, Deadline deadline);

// Sends whole frames on a connection, whoever calls. [any-thread]
class Sender {
 public:
  explicit Sender(int fd) : fd_(fd) {}

  // False: not sent, since the connection is broken or the time is up.
  bool send(FrameType type, uint8_t detail, std::string_view channel, std::string_view body,
            Deadline deadline = {});

  // Never waits. Sends nothing while another thread sends or the last one of these is not out, and finishes
  // it later if there is room for a part only.
  void try_to_send(const std::string& frame);

 private:
  const int fd_;
  Turn turn_;
  // With the turn:
  std::string rest_;  // of try_to_send()
  bool cut_ = false;  // a frame went out in part and never will in whole
};

}  // namespace pipeline::peers
