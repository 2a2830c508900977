#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/base/socket.hpp"
#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"
#include "core/peers/member.hpp"
#include "core/peers/server.hpp"

namespace pipeline::peers {

using Cancelled = std::function<bool()>;  // may be empty

// How a rank takes part: one connection to the server (in rank 0, the server itself) and a background
// thread.
//
// One thread at a time reads the connection: a thread that waits for a reply reads it itself, which saves a
// thread switch. When nobody waits, the background thread reads, and so learns of failures.
class Client : public Member {
 public:
  Client(const World& world, Options options);
  ~Client();

  // Returns the reply to an exchange, packed if it has several parts.
  std::string exchange(Exchange kind, std::string_view channel, std::string_view mine,
                       const Cancelled& cancelled = {});
  void put(std::string_view key, std::string_view value);
  std::optional<std::string> get(std::string_view key, Seconds timeout, const Cancelled& cancelled);
  void fail(std::string_view what);
  void leave();

 private:
  // A caller that waits for a reply on its channel, or for the value of a key.
  struct Waiter {
    FrameType type;
    std::string_view channel;
    Frame answer{};
    bool done = false;
  };

  Socket come_in();
  void await_start(Clock::time_point deadline);
  template <class Done>
  bool await(std::unique_lock<std::mutex>& lock, Done done, Deadline deadline = {});
  void read(int flags);
  void handle(Frame frame);
  void on_answer(Frame frame);
  void check_size(std::string_view what, std::string_view channel, std::string_view body) const;
  std::optional<Frame> ask(FrameType type, uint8_t detail, std::string_view channel, std::string_view body,
                           Deadline deadline, const Cancelled& cancelled);
  void on_end();

  void run();
  void take_a_look();
  void tick();
  void send_state();
  void listen(bool on);
  void lose_server(const std::string& how, uint32_t code = PL_ERROR_PEER);

  const Clock::time_point begun_ = Clock::now();
  const World world_;
  std::unique_ptr<Server> server_;  // in rank 0; destroyed after the connection
  Socket socket_;
  Sender sender_;
  Socket epoll_;  // background thread's: the connection, while nobody else reads it, and the wake-up
  WakeFd wake_;
  AwakeClock clock_;     // the background thread's, as the next two
  Seconds heard_at_{0};  // by it
  Reachability reachability_;
  // Before the start: who is missing, as last reported by the server.
  std::string missing_ = "rank 0 has not said yet who is missing";

  FrameReader reader_{kMaxBody};    // of the thread that reads
  std::atomic<bool> heard_ = true;  // something came since the last tick
  // With the member's mutex:
  bool reading_ = false;
  bool started_ = false;
  bool closed_ = false;
  std::vector<Waiter*> waiting_;

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace pipeline::peers
