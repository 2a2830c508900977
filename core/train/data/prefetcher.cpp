#include "core/train/data/prefetcher.hpp"

#include <algorithm>

#include "core/base/thread.hpp"

namespace pipeline::train {

Prefetcher::Prefetcher(const plugins::Task& task, Options options, Sequence sequence)
    : task_(task), options_(options), sequence_(std::move(sequence)) {
  try {
    for (unsigned i = 0; i < options_.workers; ++i)
      workers_.push_back(start_thread("pl-load", [this] { work(); }));
  } catch (...) {  // there are some already
    end();
    throw;
  }
}

Prefetcher::~Prefetcher() { end(); }

void Prefetcher::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

std::optional<plugins::Batch> Prefetcher::load(uint64_t index) const {
  const std::optional<LoadRequest> request = sequence_(index);
  if (!request) return std::nullopt;
  if (request->ids.empty()) return plugins::Batch();
  return task_.load(
      {.split = options_.split, .purpose = options_.purpose, .ids = request->ids, .epoch = request->epoch});
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [&] { return stop_ || slots_.size() < std::max<uint64_t>(options_.ahead, 1); });
    if (stop_) return;
    const uint64_t index = next_index_ + slots_.size();
    slots_.emplace_back();
    lock.unlock();
    Slot result;
    try {
      result.batch = load(index);
    } catch (...) {
      result.error = std::current_exception();
    }
    result.done = true;
    lock.lock();
    if (stop_) return;
    const bool ended = !result.batch && !result.error;
    slots_[index - next_index_] = std::move(result);
    ready_.notify_one();
    if (ended) return;  // the others find the end by themselves
  }
}

std::optional<plugins::Batch> Prefetcher::next() {
  if (workers_.empty()) {
    std::optional<plugins::Batch> batch = load(next_index_);
    if (batch) ++next_index_;
    return batch;
  }
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return !slots_.empty() && slots_.front().done; });
  if (slots_.front().error) std::rethrow_exception(slots_.front().error);
  if (!slots_.front().batch) return std::nullopt;
  std::optional<plugins::Batch> batch = std::move(slots_.front().batch);
  slots_.pop_front();
  ++next_index_;
  lock.unlock();
  room_.notify_one();
  return batch;
}

void Prefetcher::wait_until_full() {
  if (workers_.empty()) return;
  std::unique_lock lock(mutex_);
  const auto is_last = [](const Slot& slot) { return slot.done && (slot.error || !slot.batch); };
  ready_.wait(lock, [&] {
    return std::ranges::any_of(slots_, is_last) ||
           (slots_.size() >= options_.ahead && std::ranges::all_of(slots_, &Slot::done));
  });
  for (const Slot& slot : slots_)
    if (slot.error) std::rethrow_exception(slot.error);
}

}  // namespace pipeline::train
