#pragma once

#include <algorithm>
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
  OrderedWork(unsigned threads, std::function<Result(Job&&)> work, std::function<void(Result&&)> take)
      : work_(std::move(work)), take_(std::move(take)), most_(std::max(threads, 1u) * kAhead) {
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
  static constexpr size_t kAhead = 4;
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
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return piece->is_done; });
    }
    if (piece->failure) std::rethrow_exception(piece->failure);
    take_(std::move(piece->result));
  }

  const std::function<Result(Job&&)> work_;
  const std::function<void(Result&&)> take_;
  const size_t most_;
  std::deque<std::shared_ptr<Piece>> pieces_;  // not taken yet; the calling thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Piece>> waiting_;
  bool is_ended_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace pipeline::files
