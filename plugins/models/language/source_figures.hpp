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

// `sources`: of each sample of a batch; empty where there is one source alone, and nothing is told.

// Where a model puts the loss of each row with a target; undefined where nobody asks.
at::Tensor row_losses(const PackedBatch& batch, const std::vector<size_t>& sources);

// Of a batch of training: "loss/NAME", the mean over a source's targets, and "samples/NAME".
void tell_sources(const Context& context, const PackedBatch& batch, const std::vector<size_t>& sources,
                  const std::vector<std::string>& names, const at::Tensor& row_losses);

}  // namespace pipeline::language
