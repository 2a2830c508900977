// The plugin of the zoo whose entry lets a C++ exception out.
#include <stdexcept>

#include "pipeline.h"

const pl_plugin* pl_plugin_entry(const pl_host*, pl_error**) { throw std::runtime_error("out of patience"); }
