#include "core/peers/background.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/fail.hpp"

namespace pipeline::peers {
namespace {

constexpr int kUnchanged = 10;  // notices until what has not changed is told again

}  // namespace

WakeFd::WakeFd() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) fail("cannot make an event descriptor: {}", std::strerror(errno));
}

void WakeFd::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
      ::write(event_.fd(), &one, sizeof one);  // can only fail when it rings already
}

void WakeFd::clear() noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(event_.fd(), &count, sizeof count);
}

bool AwakeClock::tick() {
  const Seconds passed = Clock::now() - last_;
  if (passed < period_) return false;
  last_ = Clock::now();
  awake_ += std::min(passed, 2 * period_);
  return true;
}

int AwakeClock::milliseconds_left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(last_ + period_ - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

void TimedMutex::lock() {
  std::unique_lock lock(mutex_);
  free_.wait(lock, [&] { return !taken_; });
  taken_ = true;
}

bool TimedMutex::try_lock() {
  std::lock_guard lock(mutex_);
  return !std::exchange(taken_, true);
}

bool TimedMutex::try_lock_until(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!free_.wait_until(lock, deadline, [&] { return !taken_; })) return false;
  return taken_ = true;
}

void TimedMutex::unlock() {
  std::lock_guard lock(mutex_);
  taken_ = false;
  free_.notify_one();
}

Clock::time_point deadline_after(Seconds patience) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(patience, Seconds(1e9)));
}

std::string seconds_text(Seconds time) {
  return time < Seconds(10) ? fmt::format("{:.2g} s", time.count()) : fmt::format("{:.0f} s", time.count());
}

Seconds heartbeat_period(Seconds stall) {
  if (stall <= Seconds(0)) return Seconds(1);
  return std::clamp(stall / 8, Seconds(0.02), Seconds(1));
}

Waiting::Waiting(std::function<void(const std::string& what)> tell, Seconds notice) : tell_(std::move(tell)) {
  if (tell_) ticker_.emplace("pl-waiting", std::max<Seconds>(notice, kLook), [this] { return look(), true; });
}

void Waiting::is_for(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Waiting::look() {
  std::unique_lock lock(mutex_);
  if (const int notices = notices_++; what_.empty() || (what_ == told_ && notices < kUnchanged)) return;
  told_ = what_;
  notices_ = 1;
  lock.unlock();
  tell_(told_);
}

}  // namespace pipeline::peers
