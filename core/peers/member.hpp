// How a rank takes part: what it is doing, what it has heard of failures, and the rank of a run of one
// process.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/error.hpp"
#include "core/peers/background.hpp"
#include "core/peers/messages.hpp"
#include "core/peers/peers.hpp"
#include "core/peers/round.hpp"

namespace pipeline::peers {

// What this rank is doing. [any-thread]
class Activity {
 public:
  void at(std::string_view phase, uint64_t step);
  void moved() { moves_.fetch_add(1, std::memory_order_relaxed); }

  State now() const;  // without the collective

 private:
  std::atomic<uint64_t> moves_ = 0;
  mutable std::mutex mutex_;  // of what follows
  std::string phase_ = State{}.phase;
  uint64_t step_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

using Cancelled = std::function<bool()>;  // may be empty

// How a rank takes part.
class Peers::Member {
 public:
  explicit Member(Options options) : options_(std::move(options)) {}
  virtual ~Member() = default;

  // The reply to an exchange, packed where it has several parts.
  virtual std::string exchange(Exchange kind, std::string_view channel, std::string_view mine,
                               const Cancelled& cancelled = {}) = 0;
  virtual void put(std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> get(std::string_view key, Seconds timeout,
                                         const Cancelled& cancelled) = 0;
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
  static Error cancelled_error();
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

// A run of one process: exchanges return at once.
class LocalMember final : public Peers::Member {
 public:
  explicit LocalMember(Options options);
  ~LocalMember() override;

  std::string exchange(Exchange kind, std::string_view channel, std::string_view mine,
                       const Cancelled& cancelled) override;
  void put(std::string_view key, std::string_view value) override;
  std::optional<std::string> get(std::string_view key, Seconds timeout, const Cancelled& cancelled) override;
  void fail(std::string_view what) override;
  void leave() override;

 private:
  void watch();

  std::map<std::string, std::string, std::less<>> store_;
  std::thread thread_;
};

}  // namespace pipeline::peers
