// The parameters of a model, declared one by one as it is built.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "transformer/blocks.hpp"

namespace pipeline::protein {

// What a parameter is before training.
struct Initial {
  enum class Kind { kZeros, kOnes, kNormal };
  Kind kind = Kind::kZeros;
  double deviation = 0;  // of kNormal
};

struct ParameterInfo {
  std::string name;
  std::vector<int64_t> shape;
  uint32_t unit = 0;          // 0: both ends; 1 .. n: layers
  bool weight_decay = false;  // matrices yes; biases, norms and embeddings no
  Initial initial;
};

class Parameters {
 public:
  // The tensor's memory is the strategy's later on; here it has none that is touched.
  at::Tensor add(ParameterInfo info);
  // N(0, deviation) weights (in, out) with weight decay, zero biases: "name.weight", "name.bias".
  transformer::Linear linear(const std::string& name, int64_t in, int64_t out, uint32_t unit, double deviation);
  transformer::Norm norm(const std::string& name, int64_t width, uint32_t unit, double epsilon);

  size_t size() const { return infos_.size(); }
  const ParameterInfo& info(size_t index) const { return infos_.at(index); }
  const std::vector<std::pair<std::string, at::Tensor>>& named() const { return named_; }

  // Writes what parameter `index` is before training, a function of (seed, index) alone. `out`: fp32,
  // contiguous, in host memory, of the parameter's shape.
  void write_initial(uint64_t seed, size_t index, at::Tensor& out) const;

 private:
  std::vector<ParameterInfo> infos_;
  std::vector<std::pair<std::string, at::Tensor>> named_;
};

}  // namespace pipeline::protein
