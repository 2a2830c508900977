// What a vision encoder made of pictures, and where it may be found again.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::llava {

// A picture of one square or several as the encoder sees it.
struct PictureFeatures {
  at::Tensor squares;             // (squares, patches, hidden_size)
  int64_t width = 0, height = 0;  // of the picture itself
};

// Features of pictures, kept by whoever uses the model. The methods are called from the main thread; find()
// from any.
class FeatureStore {
 public:
  virtual ~FeatureStore() = default;

  // Whether open() was called, with a hash of the encoder's weights: from then on features are found and
  // kept.
  virtual bool is_open() const = 0;
  virtual void open(const files::Hash128& weights) = 0;

  // The features, on the CPU; with squares undefined if they are not there.
  virtual PictureFeatures find(const files::Hash128& picture) const = 0;
  // Takes features that are on a device, once that has computed them.
  virtual void put(const files::Hash128& picture, const PictureFeatures& features) = 0;
  // Counts features for the log.
  virtual void count(uint64_t found, uint64_t made) = 0;
};

}  // namespace pipeline::llava
