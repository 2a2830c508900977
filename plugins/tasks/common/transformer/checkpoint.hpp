#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace pipeline::transformer {

// body(x), keeping only x: the backward pass runs body again. `parameters` are the tensors that body reads
// and that may need gradients. body must compute the same bits each time (dropout by key does) and must
// outlive nothing but the graph, which keeps it.
at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> body, const at::Tensor& x,
                      const std::vector<at::Tensor>& parameters);

}  // namespace pipeline::transformer
