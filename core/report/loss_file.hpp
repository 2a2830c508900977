// Losses by step, as another program has written them.
#pragma once

#include <filesystem>
#include <string>

#include "core/report/run_record.hpp"

namespace pipeline::report {

struct LossFile {
  RunRecord run;
  std::string how_read;  // "theirs.csv: the step is iter, the loss train_loss"
};

// JSON objects a line, or CSV with a header. The step is the column `step`, `global_step`, `_step`, `iter` or
// `iteration`, the loss `loss`, `train_loss`, `train/loss` or `training_loss`, the first that there is. A
// line of JSON without a loss is of something else, such as an evaluation; one where it is empty, null or NaN
// is of a loss that is no number, unless its step has one in another line. Throws Error with file and line
// for what is none of this, or with the names of the columns where there is no step or no loss among them.
LossFile read_losses(const std::filesystem::path& file, std::string name);

}  // namespace pipeline::report
