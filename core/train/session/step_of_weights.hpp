// How many optimizer steps have made the weights that an evaluation, a prediction or an export is about. The
// header of the plugins says it of training alone; the Python package asks for it (core/cli/embedding.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace pipeline::train {

inline std::atomic<uint64_t> step_of_weights{0};

}  // namespace pipeline::train
