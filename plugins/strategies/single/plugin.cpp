#include "plugins/strategies/single/single.hpp"

PIPELINE_STRATEGY(pipeline::strategies::Single, "single", "1.0.0", "One process, one device")
