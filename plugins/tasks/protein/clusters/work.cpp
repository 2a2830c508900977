#include "plugins/tasks/protein/clusters/work.hpp"

#include <system_error>
#include <thread>
#include <vector>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::protein {

namespace {

constexpr std::chrono::milliseconds kReportEvery(100);
thread_local const Work* helps = nullptr;  // the work that this thread was started for

}  // namespace

void Work::run_threads(const std::function<void()>& body) {
  const auto guarded = [&] {
    try {
      body();
    } catch (...) {
      fail(std::current_exception());
    }
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < hooks_.threads; ++i) {
    {
      const std::lock_guard lock(mutex_);
      ++running_;
    }
    try {
      others.emplace_back([&] {
        helps = this;
        guarded();
        const std::lock_guard lock(mutex_);
        --running_;
        left_.notify_all();
      });
    } catch (const std::system_error&) {  // no more threads to be had: those that are there do the work
      const std::lock_guard lock(mutex_);
      --running_;
      break;
    }
  }
  guarded();
  // The others finish their last items, which can be long.
  std::unique_lock lock(mutex_);
  while (!left_.wait_for(lock, kReportEvery, [&] { return running_ == 0; })) {
    lock.unlock();
    try {
      report();
    } catch (...) {
      fail(std::current_exception());
    }
    lock.lock();
  }
  lock.unlock();
  others.clear();
  if (error_) std::rethrow_exception(error_);
}

void Work::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  stop_ = true;
}

void Work::advance(uint64_t units) {
  done_ += units;
  if (stop_) throw files::Cancelled();
  if (helps != this && std::chrono::steady_clock::now() - reported_ >= kReportEvery) report();
}

void Work::report() {
  reported_ = std::chrono::steady_clock::now();
  hooks_.throw_if_cancelled();
  hooks_.report(done_, total_);
}

}  // namespace pipeline::protein
