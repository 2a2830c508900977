#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pipeline.h"

namespace pipeline::plugins {

class Task;

// A loaded batch and its facts. The destructor returns the batch to its task, which must outlive it.
// Movable between threads.
class Batch {
 public:
  Batch() = default;
  // Takes ownership of `handle`. Created by Task::load.
  Batch(const Task& task, pl_batch* handle, std::span<const uint64_t> ids);
  Batch(Batch&& other) noexcept
      : task_(other.task_),
        handle_(std::exchange(other.handle_, nullptr)),
        info_(other.info_),
        ids_(std::move(other.ids_)) {}
  Batch& operator=(Batch&& other) noexcept {
    std::swap(task_, other.task_);
    std::swap(handle_, other.handle_);
    std::swap(info_, other.info_);
    std::swap(ids_, other.ids_);
    return *this;
  }
  ~Batch();

  explicit operator bool() const { return handle_ != nullptr; }
  pl_batch* handle() const { return handle_; }
  const pl_batch_info& info() const { return info_; }
  double weight() const { return info_.weight; }
  std::span<const uint64_t> ids() const { return ids_; }  // of its samples

 private:
  void give_back() noexcept;

  const Task* task_ = nullptr;
  pl_batch* handle_ = nullptr;
  pl_batch_info info_{};
  std::vector<uint64_t> ids_;
};

}  // namespace pipeline::plugins
