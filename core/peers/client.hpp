#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/base/socket.hpp"
#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"
#include "core/peers/peers.hpp"
#include "core/peers/server.hpp"

namespace pipeline::peers {

using Cancelled = std::function<bool()>;  // may be empty

// What this rank is doing. [any-thread]
class Activity {
 public:
  void at(std::string_view phase, uint64_t step);
  void moved() { moves_.fetch_add(1, std::memory_order_relaxed); }

  State now() const;  // without the collective

 private:
  std::atomic<uint64_t> moves_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  std::string phase_ = State{}.phase;
  uint64_t step_ = 0;
  Clock::time_point since_ = Clock::now();
};

// How a rank takes part: one connection to the server (in rank 0, the server itself) and a background
// thread.
//
// One thread at a time reads the connection: a thread that waits for a reply reads it itself, which saves a
// thread switch. When nobody waits, the background thread reads, and so learns of failures.
class Client {
 public:
  Client(const World& world, PeersOptions options);
  ~Client();

  // Returns the reply to an exchange, packed if it has several parts.
  std::string exchange(Collective kind, std::string_view channel, std::string_view mine,
                       const Cancelled& cancelled = {});
  void put(std::string_view key, std::string_view value);
  std::optional<std::string> get(std::string_view key, Seconds timeout, const Cancelled& cancelled);
  void fail(std::string_view what, uint32_t code);
  void leave();
  std::optional<Failure> failure(Seconds wait);

  Activity activity;

 private:
  // A caller that waits for a reply on its channel, or for the value of a key.
  struct Waiter {
    FrameType type;
    std::string_view channel;
    Frame answer{};
    bool done = false;
  };

  Socket connect_and_join();
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
  // Throws if an exchange cannot be made, with the reason. Call it with the mutex held.
  void check_open() const;
  // Only the first call counts. [any-thread]
  void settle(Verdict verdict);

  void run();
  void take_a_look();
  void tick();
  void send_state();
  void tell_failure();  // to on_failure, once
  void listen(bool on);
  void lose_server(const std::string& how, uint32_t code = PL_ERROR_PEER);

  const Clock::time_point begun_ = Clock::now();
  const World world_;
  const PeersOptions options_;
  std::unique_ptr<Waiting> waiting_for_;  // until all are there
  std::unique_ptr<Server> server_;        // in rank 0; destroyed after the connection
  Socket socket_;
  Sender sender_;
  Socket epoll_;  // background thread's: the connection, while nobody else reads it, and the wake-up
  WakeFd wake_;
  AwakeClock clock_;     // the background thread's, as the next two
  Seconds heard_at_{0};  // by clock_
  Reachability reachability_;
  // Before the start: who is missing, as last reported by the server.
  std::string missing_ = "rank 0 has not said yet who is missing";

  FrameReader reader_{kMaxBody};    // of the thread that reads
  std::atomic<bool> heard_ = true;  // something came since the last tick
  std::mutex mutex_;                // guards the members below
  std::condition_variable changed_;
  std::optional<Verdict> verdict_;
  bool left_ = false;
  bool ended_ = false;  // rank 0 has said goodbye
  bool reading_ = false;
  bool started_ = false;
  bool closed_ = false;
  std::vector<Waiter*> waiting_;

  bool told_ = false;  // the background thread's
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace pipeline::peers
