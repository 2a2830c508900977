#pragma once

#include <span>

#include "pipeline.h"

namespace pipeline::config {

// Every option of the core itself, by full key ("train.max_steps"), in the order they are shown. Static.
std::span<const pl_option> core_options();

}  // namespace pipeline::config
