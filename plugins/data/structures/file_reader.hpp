#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "plugins/data/structures/input_files.hpp"
#include "plugins/data/structures/structure_record.hpp"

namespace pipeline::structures {

// Memory that several threads share. What does not fit waits until others have given back, except that one at
// a time may go beyond: so work that needs more than there is at all is done one by one, and nobody waits for
// ever. [any-thread]
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t bytes) : limit_(bytes) {}

  // What one piece of work has of the budget; given back when it ends.
  class Share {
   public:
    Share() = default;
    explicit Share(MemoryBudget& budget) : budget_(&budget) {}
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      std::swap(beyond_, other.beyond_);
      return *this;
    }
    ~Share() { set(0); }

    // Waits if `bytes` are more than before and do not fit. Fewer than before always end being beyond.
    void set(uint64_t bytes) {
      if (budget_ == nullptr || bytes == bytes_) return;
      MemoryBudget& budget = *budget_;
      std::unique_lock lock(budget.mutex_);
      if (bytes > bytes_) {
        const auto fits = [&] { return budget.used_ - bytes_ + bytes <= budget.limit_; };
        budget.freed_.wait(lock, [&] { return fits() || beyond_ || !budget.any_beyond_; });
        if (!fits()) beyond_ = budget.any_beyond_ = true;
      } else if (beyond_) {
        beyond_ = budget.any_beyond_ = false;
      }
      budget.used_ += bytes - bytes_;  // modulo 2^64
      bytes_ = bytes;
      budget.freed_.notify_all();
    }

   private:
    MemoryBudget* budget_ = nullptr;
    uint64_t bytes_ = 0;
    bool beyond_ = false;
  };

 private:
  const uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable freed_;
  uint64_t used_ = 0;
  bool any_beyond_ = false;
};

struct ReadResult {
  MemoryBudget::Share memory;  // what the record needs
  FileIndex::Entry entry;
  bool lasting = false;     // the entry holds until the file's state changes
  bool is_damaged = false;  // the cache has the key, but its record is not whole
  std::string record;       // to be appended; empty if the cache has it, or there is none
};

// Reads a file, and parses it if the cache does not have its content. [any-thread]
ReadResult read_file(const InputFile& file, const ReadLimits& limits, const stores::RecordStore& cache,
                     MemoryBudget& budget);

// Whether what is remembered of a file whose state is the same still holds.
bool holds(const FileIndex::Entry& entry, const InputFile& file, const ReadLimits& limits);

}  // namespace pipeline::structures
