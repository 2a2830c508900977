#include "core/peers/member.hpp"

#include <algorithm>

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

std::optional<Failure> Member::failure(std::chrono::duration<double> wait) {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::min(wait, std::chrono::duration<double>(1e6)));
  changed_.wait_for(lock, limit, [&] { return verdict_ || left_ || ended_; });
  return verdict_ ? std::optional(verdict_->failure) : std::nullopt;
}

void Member::settle(Verdict verdict) {
  verdict.failure.stalled = verdict.failure.by_peer_loss && verdict.code == PL_ERROR_TIMEOUT;
  std::lock_guard lock(mutex_);
  if (!verdict_ && !left_) verdict_ = std::move(verdict);
  changed_.notify_all();
}

State Member::state() const {
  State state = activity.now();
  if (options_.collective) state.collective = options_.collective();
  return state;
}

void Member::check_open() const {
  if (verdict_) throw Error(PL_ERROR_PEER, describe(verdict_->failure));
  if (left_) throw Error(PL_ERROR_PEER, "this rank has left the run and can no longer exchange data");
  if (ended_) throw Error(PL_ERROR_PEER, "rank 0 has left the run: nothing can be exchanged any more");
}

Error Member::cancelled_error() {
  return Error(PL_ERROR_CANCELLED, "told to stop while waiting for other ranks");
}

void Member::tell_failure() {
  std::optional<Failure> failure;
  {
    std::lock_guard lock(mutex_);
    if (told_ || !verdict_) return;
    failure = verdict_->failure;
  }
  told_ = true;
  if (options_.on_failure) options_.on_failure(*failure);
}

}  // namespace pipeline::peers
