#include "core/peers/waiting.hpp"

#include <algorithm>
#include <utility>

namespace pipeline::peers {
namespace {

constexpr int kUnchanged = 10;  // notices until what has not changed is told again

}  // namespace

Waiting::Waiting(std::function<void(const std::string& what)> tell, Seconds notice)
    : tell_(std::move(tell)), notice_(std::max<Seconds>(notice, kLook)) {
  if (tell_) thread_ = start_thread("pl-waiting", [this] { run(); });
}

Waiting::~Waiting() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Waiting::is_for(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Waiting::run() {
  std::unique_lock lock(mutex_);
  std::string told;
  for (int notices = 0; !changed_.wait_for(lock, notice_, [this] { return over_; }); ++notices) {
    if (what_.empty() || (what_ == told && notices < kUnchanged)) continue;
    told = what_;
    notices = 0;
    lock.unlock();
    tell_(told);
    lock.lock();
  }
}

}  // namespace pipeline::peers
