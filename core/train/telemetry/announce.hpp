// What a run or a verb says of itself before it works.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/train/session/schedule.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// The lines "device" and "processes": where the session works.
void announce_place(const Session& session);

// What options follow from a model that another tool or run has made: a line for each.
void announce_model_options(const Session& session);

// Logs a warning for each setting that training as configured makes no use of. No error: it may be inherited
// through `extends`.
void warn_of_unused_options(const Session& session);
// Names the parameters that have had no gradient in the `steps` steps since the session was bound. Each rank
// knows its own.
void warn_of_unused_parameters(Session& session, uint64_t steps);

// All that a run that trains says: what it is made of, how long it will be, from which `weights` it begins.
void announce_training(Session& session, const Schedule& schedule, uint64_t steps_per_epoch,
                       const std::string& weights);

// What all devices of the run can do at most, in floating-point operations per second, as the strategy
// measures it with a matrix product in the compute dtype (pl_runtime.peak_flops); 0 where it cannot. The
// denominator of MFU.
double measure_peak_flops(Session& session);

std::string model_json(Session& session);

// What the run is made of: {"task", "strategy", "backend", "device", "processes", "precision", "parameters",
// "trainable_parameters"}.
nlohmann::ordered_json describe_run(Session& session);

}  // namespace pipeline::train
