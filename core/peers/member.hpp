#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/peers/activity.hpp"
#include "core/peers/peers.hpp"
#include "core/peers/round.hpp"

namespace pipeline::peers {

// How a rank takes part. Alone: nobody to talk to, only the watch for stalls.
class Peers::Member {
 public:
  explicit Member(Options options) : options_(std::move(options)) {}
  virtual ~Member() = default;

  // The reply to an exchange, packed where it has several parts.
  virtual std::string exchange(Exchange kind, std::string_view channel, std::string_view mine) = 0;
  virtual void fail(std::string_view what) = 0;
  virtual void leave() = 0;

  std::optional<Failure> failure(std::chrono::duration<double> wait);
  Activity activity;

 protected:
  // The first one counts. [any-thread]
  void settle(Verdict verdict);
  // What this rank does, with the collective that it waits in.
  State state() const;
  // Throws what an exchange cannot be made for; with the mutex held.
  void check_open() const;
  // Calls on_failure, once, if there is a failure. On the background thread.
  void tell_failure();

  const Options options_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::optional<Verdict> verdict_;
  bool left_ = false;
  bool ended_ = false;  // rank 0 has said goodbye

 private:
  bool told_ = false;  // the background thread's
};

}  // namespace pipeline::peers
