// model.json: what is trained. Parameters in all and per unit, dtypes, bytes by use.
#pragma once

#include <cstdint>
#include <string>

#include "core/train/run/session.hpp"

namespace pipeline::train {

struct ParameterCount {
  uint64_t total = 0;
  uint64_t trainable = 0;
  uint64_t decayed = 0;  // trainable, with weight decay
};

ParameterCount count_parameters(Session& session);
std::string model_json(Session& session);

}  // namespace pipeline::train
