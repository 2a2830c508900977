// What a frozen vision encoder made of pictures, kept in memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <ATen/core/Tensor.h>

#include "record_store/record_store.hpp"

namespace pipeline::vlm {

// Nothing that was put in ever leaves, so what a loader thread found here is here when the batch is trained.
// Once it is full it takes no more. Safe for any thread.
class FeatureCache {
 public:
  explicit FeatureCache(uint64_t most_bytes) : left_(most_bytes) {}

  bool has(const files::Hash128& key) const {
    const std::lock_guard lock(mutex_);
    return features_.contains(key);
  }
  // (patches, width); undefined if it is not there.
  at::Tensor find(const files::Hash128& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = features_.find(key);
    return found == features_.end() ? at::Tensor() : found->second;
  }
  // A copy of `features` (patches, width).
  void put(const files::Hash128& key, const at::Tensor& features) {
    const auto bytes = static_cast<uint64_t>(features.numel() * features.element_size());
    const std::lock_guard lock(mutex_);
    if (bytes > left_ || features_.contains(key)) return;
    features_.emplace(key, features.detach().clone());
    left_ -= bytes;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<files::Hash128, at::Tensor, records::KeyHash> features_;
  uint64_t left_;
};

}  // namespace pipeline::vlm
