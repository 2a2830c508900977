#include "core/peers/member.hpp"

#include <algorithm>

#include "core/base/socket.hpp"
#include "core/peers/stall_watch.hpp"

namespace pipeline::peers {

void Activity::at(std::string_view phase, uint64_t step) {
  moved();
  std::lock_guard lock(mutex_);
  phase_ = phase;
  step_ = step;
  since_ = std::chrono::steady_clock::now();
}

State Activity::now() const {
  std::lock_guard lock(mutex_);
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - since_;
  return {phase_, step_, since.count(), moves_.load(std::memory_order_relaxed), {}};
}

std::optional<Failure> Peers::Member::failure(std::chrono::duration<double> wait) {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::min(wait, std::chrono::duration<double>(1e6)));
  changed_.wait_for(lock, limit, [&] { return verdict_ || left_ || ended_; });
  return verdict_ ? std::optional(verdict_->failure) : std::nullopt;
}

void Peers::Member::settle(Verdict verdict) {
  verdict.failure.stalled = verdict.failure.by_peer_loss && verdict.code == PL_ERROR_TIMEOUT;
  std::lock_guard lock(mutex_);
  if (!verdict_ && !left_) verdict_ = std::move(verdict);
  changed_.notify_all();
}

State Peers::Member::state() const {
  State state = activity.now();
  if (options_.collective) state.collective = options_.collective();
  return state;
}

void Peers::Member::check_open() const {
  if (verdict_) throw Error(PL_ERROR_PEER, describe(verdict_->failure));
  if (left_) throw Error(PL_ERROR_PEER, "this rank has left the run and takes part in no exchange any more");
  if (ended_) throw Error(PL_ERROR_PEER, "rank 0 has left the run: nothing can be exchanged any more");
}

Error Peers::Member::cancelled_error() {
  return Error(PL_ERROR_CANCELLED, "told to stop while waiting for other ranks");
}

void Peers::Member::tell_failure() {
  std::optional<Failure> failure;
  {
    std::lock_guard lock(mutex_);
    if (told_ || !verdict_) return;
    failure = verdict_->failure;
  }
  told_ = true;
  if (options_.on_failure) options_.on_failure(*failure);
}

LocalMember::LocalMember(Options options) : Member(std::move(options)) {
  thread_ = start_thread("pl-peers", [this] { watch(); });
}

LocalMember::~LocalMember() {
  leave();
  thread_.join();
}

std::string LocalMember::exchange(Exchange kind, std::string_view, std::string_view mine, const Cancelled&) {
  std::lock_guard lock(mutex_);
  check_open();
  activity.moved();
  if (kind == Exchange::broadcast || kind == Exchange::barrier) return {};
  return pack({std::string(mine)});
}

void LocalMember::put(std::string_view key, std::string_view value) {
  std::lock_guard lock(mutex_);
  check_open();
  store_.insert_or_assign(std::string(key), value);
  changed_.notify_all();
}

std::optional<std::string> LocalMember::get(std::string_view key, Seconds timeout,
                                            const Cancelled& cancelled) {
  const Clock::time_point deadline = deadline_after(timeout);
  std::unique_lock lock(mutex_);
  for (;;) {
    check_open();
    if (const auto entry = store_.find(key); entry != store_.end()) return entry->second;
    if (Clock::now() >= deadline) return std::nullopt;
    if (cancelled && cancelled()) throw cancelled_error();
    changed_.wait_until(lock, std::min(deadline, Clock::now() + kLook));
  }
}

void LocalMember::fail(std::string_view what) {
  settle({{0, host_name(), std::string(what), false}, PL_ERROR_FAILED});
}

void LocalMember::leave() {
  std::lock_guard lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

void LocalMember::watch() {
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
