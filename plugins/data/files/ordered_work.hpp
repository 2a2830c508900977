#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace pipeline::files {

// Work on jobs that come one after another, on some threads. Their results are taken in the jobs' order, on
// the thread that adds them; a few jobs for each thread wait at most, so that memory stays bounded. What
// `work` throws is thrown by add() or finish(), and then nothing else may be called.
template <class Job, class Result>
class OrderedWork {
 public:
  // `ahead`: jobs that wait for each thread at most. `idle` (optional) is called at least every 50 ms while a
  // result is waited for.
  OrderedWork(unsigned threads, std::function<Result(Job&&)> work, std::function<void(Result&&)> take,
              std::function<void()> idle = nullptr, size_t ahead = 4)
      : work_(std::move(work)),
        take_(std::move(take)),
        idle_(std::move(idle)),
        most_(std::max(threads, 1u) * ahead) {
    try {
      for (unsigned i = 0; i < std::max(threads, 1u); ++i) threads_.emplace_back([this] { run(); });
    } catch (...) {  // no destructor follows
      end();
      throw;
    }
  }
  ~OrderedWork() { end(); }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  void add(Job&& job) {
    while (pieces_.size() >= most_) take_first();
    pieces_.push_back(std::make_shared<Piece>(std::move(job)));
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(pieces_.back());
    }
    changed_.notify_all();
  }
  void finish() {
    while (!pieces_.empty()) take_first();
  }

 private:
  struct Piece {
    explicit Piece(Job&& one) : job(std::move(one)) {}
    Job job;
    Result result{};
    std::exception_ptr failure;
    bool is_done = false;
  };

  void end() {
    {
      const std::lock_guard lock(mutex_);
      is_ended_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // joins
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ended_ || !waiting_.empty(); });
      if (is_ended_) return;
      const std::shared_ptr<Piece> piece = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      try {
        piece->result = work_(std::move(piece->job));
      } catch (...) {
        piece->failure = std::current_exception();
      }
      lock.lock();
      piece->is_done = true;
      changed_.notify_all();
    }
  }
  void take_first() {
    const std::shared_ptr<Piece> piece = pieces_.front();
    pieces_.pop_front();
    for (bool is_done = false; !is_done;) {
      if (idle_) idle_();
      std::unique_lock lock(mutex_);
      is_done = changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return piece->is_done; });
    }
    if (piece->failure) std::rethrow_exception(piece->failure);
    take_(std::move(piece->result));
  }

  const std::function<Result(Job&&)> work_;
  const std::function<void(Result&&)> take_;
  const std::function<void()> idle_;
  const size_t most_;
  std::deque<std::shared_ptr<Piece>> pieces_;  // not taken yet; the calling thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Piece>> waiting_;
  bool is_ended_ = false;
  std::vector<std::jthread> threads_;
};

// Runs work(0) ... work(count - 1) in this way, and gives each result and its number to `take`.
template <class Result>
void run_in_order(size_t count, unsigned threads, const std::function<Result(size_t)>& work,
                  const std::function<void(size_t, Result&&)>& take, const std::function<void()>& idle,
                  size_t ahead = 4) {
  size_t taken = 0;
  OrderedWork<size_t, Result> ordered(
      static_cast<unsigned>(std::min<size_t>(threads, count)), [&](size_t&& i) { return work(i); },
      [&](Result&& result) { take(taken++, std::move(result)); }, idle, ahead);
  for (size_t i = 0; i < count; ++i) ordered.add(size_t{i});
  ordered.finish();
}

}  // namespace pipeline::files
