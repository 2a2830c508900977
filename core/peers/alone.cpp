#include "core/peers/alone.hpp"

#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/peers/stall_watch.hpp"

namespace pipeline::peers {

Alone::Alone(Options options) : Member(std::move(options)) {
  thread_ = start_thread("pl-peers", [this] { watch(); });
}

Alone::~Alone() {
  leave();
  thread_.join();
}

std::string Alone::exchange(Exchange kind, std::string_view, std::string_view mine) {
  std::lock_guard lock(mutex_);
  check_open();
  activity.moved();
  if (kind == Exchange::broadcast || kind == Exchange::barrier) return {};
  return pack({std::string(mine)});
}

void Alone::fail(std::string_view what) {
  settle({{0, host_name(), std::string(what), false}, PL_ERROR_FAILED});
}

void Alone::leave() {
  std::lock_guard lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

void Alone::watch() {
  StallWatch stalls({host_name()}, options_.stall);
  AwakeClock clock(heartbeat_period(options_.stall));
  const auto over = [&] { return left_ || verdict_; };
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(clock.milliseconds_left()), over)) {
    lock.unlock();
    if (clock.tick()) {
      stalls.heard(0, state(), clock.now());
      if (auto stall = stalls.check(clock.now(), [](int32_t) { return std::string(); }))
        settle({{0, host_name(), stall->what, true}, PL_ERROR_TIMEOUT});
    }
    lock.lock();
  }
  lock.unlock();
  tell_failure();
}

}  // namespace pipeline::peers
