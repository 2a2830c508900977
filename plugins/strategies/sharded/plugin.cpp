#include "plugins/strategies/sharded/sharded.hpp"

PIPELINE_STRATEGY(pipeline::strategies::Sharded, "sharded", "1.0.0",
                  "Optimizer state, gradients and weights dealt out to the processes (ZeRO 1, 2, 3)")
