#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace pipeline::plugins {

// Memory aligned to 64 bytes, as pl_task_api.bind promises, with NaN beside it and behind that pages that
// nobody may touch: what a plugin writes beside it shows, what it reads there is NaN, and far off it crashes.
class Guarded {
 public:
  explicit Guarded(size_t bytes = 0);  // zeros
  Guarded(Guarded&& other) noexcept { *this = std::move(other); }
  Guarded& operator=(Guarded&& other) noexcept;
  ~Guarded();

  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  // "in front of", "behind": where something was written beside it; "": nowhere.
  std::string written_beside() const;

 private:
  size_t bytes_ = 0, mapped_ = 0;
  std::byte* map_ = nullptr;   // a guard, pages that are open, a guard
  std::byte* data_ = nullptr;  // in these
};

}  // namespace pipeline::plugins
