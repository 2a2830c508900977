#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// The whole model's values in the order of `layout`, zeros at first: of `dtype`, and from narrow_begin() on
// in bfloat16.
class ValueArena {
 public:
  ValueArena(std::shared_ptr<const Layout> layout, at::ScalarType dtype, at::Device device);

  // A view of `length` elements from `begin` on, which lie on one side of narrow_begin().
  at::Tensor part(int64_t begin, int64_t length) const;
  // Where parameter `index` is; borrowed from this object.
  void* address(size_t index) const;
  at::ScalarType dtype() const { return wide_.scalar_type(); }
  uint64_t bytes() const { return wide_.nbytes() + narrow_.nbytes(); }

 private:
  std::shared_ptr<const Layout> layout_;
  at::Tensor wide_, narrow_;
};

}  // namespace pipeline::strategies
