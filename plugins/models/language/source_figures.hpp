// Figures of the sources that a mixture of data has, in each step's line of the log.
#pragma once

#include <pipeline/context.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "transformer/packed_batch.hpp"

namespace pipeline::language {

using transformer::PackedBatch;

// Where a model puts the loss of each row with a target.
at::Tensor row_losses(const PackedBatch& batch);

// Of a batch of training, whose sample i is of the source sources[i]: "loss/NAME", the mean over a source's
// targets, and "samples/NAME".
void tell_sources(const Context& context, const PackedBatch& batch, const std::vector<size_t>& sources,
                  const std::vector<std::string>& names, const at::Tensor& row_losses);

}  // namespace pipeline::language
