#include "core/peers/member.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace pipeline::peers {

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

}  // namespace pipeline::peers
