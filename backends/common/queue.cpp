#include "backends/common/queue.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>

namespace pipeline::backends {
namespace {

using std::chrono::duration;

// How long an interrupted transport may take to be out of the caller's memory, where it must be at once.
constexpr duration<double> kInterruptPatience{10};
// Longer than any run, and short enough for the clock's arithmetic.
constexpr double kForever = 1e9;

// CLOCK_MONOTONIC.
int64_t monotonic_nanoseconds() {
  return duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// "1, 3"
std::string listed(const std::vector<int32_t>& ranks) {
  std::string text;
  for (const int32_t rank : ranks) text += concat(text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

class Queue::Started : public Work {
 public:
  Started(Queue& queue, std::shared_ptr<Item> item) : queue_(queue), item_(std::move(item)) {}
  void wait(pl_stream /*stream*/) override { queue_.wait(*item_, 0); }  // host memory has no stream
  void wait_host(double timeout_seconds) override { queue_.wait(*item_, timeout_seconds); }
  bool is_done() override { return queue_.is_done(*item_); }

 private:
  Queue& queue_;
  std::shared_ptr<Item> item_;
};

Queue::Queue(std::unique_ptr<Transport> transport, int32_t rank, double timeout_seconds)
    : transport_(std::move(transport)), rank_(rank), timeout_(timeout_seconds) {
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    // Only when the caller breaks the contract, or is on its way out with an error.
    if (!waiting_.empty()) end(Error(PL_ERROR_PEER, "the group was closed with calls under way"));
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<Work> Queue::start(Call call) {
  const std::lock_guard lock(mutex_);
  if (ended_) throw *ended_;
  auto item = std::make_shared<Item>(Item{std::move(call), ++sequence_, false, std::nullopt});
  auto started = std::make_unique<Started>(*this, item);
  waiting_.push_back(std::move(item));
  changed_.notify_all();
  return started;
}

void Queue::abort(std::string_view reason) {
  {
    const std::lock_guard lock(mutex_);
    end(Error(PL_ERROR_PEER, concat("aborted by rank ", rank_, ": ", reason)));
  }
  changed_.notify_all();
}

void Queue::wait(Item& item, double timeout_seconds) {
  const double seconds = std::min(timeout_seconds > 0 ? timeout_seconds : timeout_, kForever);
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, duration<double>(seconds), [&] { return item.done; })) {
    if (!ended_) gave_up_ = seconds;
    end(Error(PL_ERROR_TIMEOUT, concat("after ", seconds, " seconds it is not done")));
    changed_.notify_all();
    changed_.wait_for(lock, kInterruptPatience, [&] { return item.done; });
    if (!item.done) throw *ended_;
  }
  if (item.error) throw *item.error;
}

void Queue::observe(pl_collective_ran ran, void* user) {
  const std::lock_guard lock(mutex_);  // calls of `ran` are made under the same lock
  ran_ = ran;
  ran_user_ = user;
}

bool Queue::is_done(const Item& item) {
  const std::lock_guard lock(mutex_);
  return item.done;
}

// Holds mutex_. The first reason stays.
void Queue::end(const Error& why) {
  if (!ended_) ended_ = why;
  transport_->interrupt();
}

void Queue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !waiting_.empty() || (ended_ && !told_); });
    if (waiting_.empty()) {
      if (ended_ && !told_) tell_the_others(lock);
      if (closing_ && waiting_.empty()) return;
      continue;
    }
    const std::shared_ptr<Item> item = waiting_.front();
    if (ended_ && told_)
      item->error = *ended_;
    else
      carry_out(*item, lock);
    waiting_.pop_front();
    item->done = true;
    changed_.notify_all();
  }
}

void Queue::carry_out(Item& item, std::unique_lock<std::mutex>& lock) {
  const bool observed = ran_ != nullptr;
  lock.unlock();
  const int64_t began = observed ? monotonic_nanoseconds() : 0;
  try {
    transport_->run(item.call, item.sequence);
  } catch (...) {
    item.error = current_error();
  }
  const int64_t ended = observed ? monotonic_nanoseconds() : 0;
  lock.lock();
  if (observed && ran_ != nullptr) ran_(ran_user_, item.sequence, began, ended);
  if (!item.error) return;
  item.error = failure(item, *item.error);
  tell_the_others(lock);
}

// Why the group is at its end, for the call that was under way. Sets what later calls fail with.
Error Queue::failure(const Item& item, const Error& seen) {
  if (!gave_up_) {
    if (!ended_) ended_ = Error(PL_ERROR_PEER, seen.what());
    return ended_->code() == PL_ERROR_PEER && seen.what() != std::string(ended_->what()) ? *ended_ : seen;
  }
  const std::string call = concat(operation_name(item.call.operation), " #", item.sequence);
  const std::string late = listed(transport_->absent());
  ended_ = Error(PL_ERROR_PEER, concat("rank ", rank_, " gave up after ", *gave_up_, " seconds in ", call,
                                       late.empty() ? ", which stands still"
                                                    : ", which these ranks had not called: " + late));
  return Error(
      PL_ERROR_TIMEOUT,
      late.empty()
          ? concat(call, ": after ", *gave_up_, " seconds all ranks have called it, but it stands still")
          : concat(call, ": after ", *gave_up_, " seconds these ranks have not called it: ", late));
}

void Queue::tell_the_others(std::unique_lock<std::mutex>& lock) {
  told_ = true;
  const std::string why = ended_->what();
  lock.unlock();
  transport_->leave(why);
  lock.lock();
}

}  // namespace pipeline::backends
