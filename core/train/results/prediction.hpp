// Writes submission.csv: one or more rows a sample, in input order, as they come. An interrupted prediction
// goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/train/session/session.hpp"

namespace pipeline::train {

struct PredictionRequest {
  uint32_t split = PL_SPLIT_TEST;
  std::filesystem::path output;  // the CSV, in a folder that is there; files that the task adds go into
                                 // <output stem>-files beside it
  std::string identity;          // what the rows depend on (checkpoint, config): another one starts over
};

struct Prediction {
  bool complete = false;   // false: cancelled, and can go on later
  uint64_t samples = 0;    // done, those of earlier processes included
  uint64_t continued = 0;  // samples done by earlier processes
  double seconds = 0;
};

Prediction predict(Session& session, const PredictionRequest& request);

}  // namespace pipeline::train
