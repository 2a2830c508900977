// Loads batches ahead of their use, on worker threads, and hands them out in order. What a batch holds does
// not depend on the number of workers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/plugins/task.hpp"

namespace pipeline::train {

// What to load at one place of the sequence.
struct LoadRequest {
  std::vector<uint64_t> ids;  // none: an empty batch is handed out
  uint64_t epoch = 0;
};

// Used from one thread. `task` must outlive it.
class Prefetcher {
 public:
  struct Options {
    uint32_t split = PL_SPLIT_TRAIN;
    uint32_t purpose = PL_PURPOSE_TRAIN;
    unsigned workers = 4;  // 0: next() loads by itself
    uint64_t ahead = 8;    // batches loaded or being loaded at most, the one that is asked for included
  };
  // The request at `index` of the sequence, nullopt after its end. [any-thread]
  using Sequence = std::function<std::optional<LoadRequest>(uint64_t index)>;

  Prefetcher(const plugins::Task& task, Options options, Sequence sequence);
  ~Prefetcher();  // waits for loads under way
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch; nullopt after the end of the sequence. Throws what its load threw.
  std::optional<plugins::Batch> next();

  // Waits until as many batches as it may hold are there, or all that there are. Throws what a load threw.
  void wait_until_full();

 private:
  struct Slot {
    bool done = false;
    std::optional<plugins::Batch> batch;
    std::exception_ptr error;
  };

  std::optional<plugins::Batch> load(uint64_t index) const;
  void work();
  void end();

  const plugins::Task& task_;
  const Options options_;
  const Sequence sequence_;
  std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::deque<Slot> slots_;   // of indices next_index_ ... next_index_ + size - 1, taken by workers
  uint64_t next_index_ = 0;  // that next() will hand out
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace pipeline::train
