#pragma once

#include <deque>
#include <string>

#include "core/base/socket.hpp"
#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"
#include "core/peers/round.hpp"

namespace pipeline::peers {

// The server's end of a connection. Never blocks.
class Connection {
 public:
  Connection(Socket socket, std::string address, Clock::time_point since);

  enum class Stage {
    stranger,    // has sent nothing yet
    challenged,  // has identified itself, and has yet to prove that it belongs to this run
    invited,     // may be admitted
    admitted,
    leaving,  // has left, or was turned away: closed once everything is sent
  };
  Stage stage = Stage::stranger;
  Hello hello;           // from `challenged` on; believed from `invited` on
  std::string expected;  // its proof
  FrameReader reader{kMaxStrangersBody};
  Reachability reachability;
  bool waits_for_room = false;  // wake the server when more can be sent

  int fd() const { return socket_.fd(); }
  int32_t rank() const { return hello.rank; }
  const std::string& address() const { return address_; }
  Clock::time_point since() const { return since_; }

  void queue(std::string head, Bytes body = nullptr);
  bool has_queue() const { return !queue_.empty(); }
  void forget_queue();  // except a frame that has been sent in part
  // Sends as much as the other end accepts; returns how much. If it is gone, reading will show it.
  std::size_t flush();
  void finish();  // the other end sees the end of the stream

 private:
  struct Outgoing {
    std::string head;
    Bytes body;  // may be null
  };

  Socket socket_;
  const std::string address_;
  const Clock::time_point since_;
  std::deque<Outgoing> queue_;
  std::size_t sent_ = 0;  // of the first in the queue
};

}  // namespace pipeline::peers
