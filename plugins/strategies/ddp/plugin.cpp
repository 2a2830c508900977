#include "plugins/strategies/ddp/ddp.hpp"

PIPELINE_STRATEGY(pipeline::strategies::Ddp, "ddp", "1.0.0",
                  "The whole model on every process; gradients are summed during the backward pass")
