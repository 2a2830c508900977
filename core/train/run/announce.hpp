// What a run or a verb says of itself before it works.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/observe/log.hpp"
#include "core/train/run/session.hpp"

namespace pipeline::train {

// One line: a word, and what there is to say of it.
void announce(observe::Log& log, std::string_view word, const std::string& text);

// The lines "device" and "processes": where the session works.
void announce_place(const Session& session);

// Logs a warning for each setting that training as configured makes no use of. No error: it may be inherited
// through `extends`.
void warn_of_unused_options(const Session& session);

// What all devices of the run can do at most, in floating-point operations per second, as the strategy
// measures it with a matrix product in the compute dtype (extension pl.peak-flops/1); 0 where it cannot. The
// denominator of MFU.
double measure_peak_flops(Session& session);

struct ParameterCount {
  uint64_t total = 0;
  uint64_t trainable = 0;
  uint64_t decayed = 0;  // trainable, with weight decay
};

ParameterCount count_parameters(Session& session);
std::string model_json(Session& session);

}  // namespace pipeline::train
