#pragma once

#include <ATen/ATen.h>

#include <vector>

#include <pipeline/communicator.hpp>

namespace pipeline::strategies {

// Sends rank 0's tensors to all ranks. One-dimensional, contiguous, the same shapes on all.
void broadcast(const Communicator& group, const std::vector<at::Tensor>& tensors);

// Throws Error, on all ranks and with the ranks' numbers, unless the tensors are the same bits everywhere.
void require_equal(const Communicator& group, const std::vector<at::Tensor>& tensors);

}  // namespace pipeline::strategies
