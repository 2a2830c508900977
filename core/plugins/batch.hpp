#pragma once

#include <utility>

#include "pipeline.h"

namespace pipeline::plugins {

class Task;

// A loaded batch and its facts; gives the batch back to its task, which must outlive it. Movable between
// threads.
class Batch {
 public:
  Batch() = default;
  Batch(const Task& task, pl_batch* handle);  // takes ownership; Task::load makes these
  Batch(Batch&& other) noexcept
      : task_(other.task_), handle_(std::exchange(other.handle_, nullptr)), info_(other.info_) {}
  Batch& operator=(Batch&& other) noexcept {
    std::swap(task_, other.task_);
    std::swap(handle_, other.handle_);
    std::swap(info_, other.info_);
    return *this;
  }
  ~Batch();

  explicit operator bool() const { return handle_ != nullptr; }
  pl_batch* handle() const { return handle_; }
  const pl_batch_info& info() const { return info_; }
  double weight() const { return info_.weight; }

 private:
  const Task* task_ = nullptr;
  pl_batch* handle_ = nullptr;
  pl_batch_info info_{};
};

}  // namespace pipeline::plugins
