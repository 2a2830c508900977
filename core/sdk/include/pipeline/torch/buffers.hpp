#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

PIPELINE_SDK_BEGIN

// A model's tensors that are not parameters: constants such as masks. Checkpoints do not contain them, so
// training must not change them.
class Buffers {
 public:
  void add(const std::string& name, at::Tensor& tensor, c10::Device device) {
    if (!tensor.defined()) return;
    if (tensor.device() != device) tensor.set_data(tensor.to(device));
    buffers_.push_back({name, tensor, tensor._version()});
  }

  void check_unchanged() const {
    for (const Buffer& buffer : buffers_) {
      if (buffer.tensor._version() == buffer.version) continue;
      fail("buffer ", buffer.name,
           " was changed in training, and no checkpoint would have it: make it a parameter, or use a layer ",
           "without running statistics, e.g. LayerNorm or GroupNorm in place of BatchNorm");
    }
  }

 private:
  struct Buffer {
    std::string name;
    at::Tensor tensor;
    int64_t version;
  };
  std::vector<Buffer> buffers_;
};

PIPELINE_SDK_END
