// Weights at the start of a run.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/plugins/strategy.hpp"
#include "core/plugins/task.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/session.hpp"
#include "core/train/session/value_source.hpp"

namespace pipeline::train {

// How many optimizer steps have made the weights that an evaluation, a prediction or an export is about. The
// header of the plugins says it of training alone; the Python package asks for it (core/cli/embedding.h).
inline std::atomic<uint64_t> step_of_weights{0};

// Where the values of a run come from. Known before its data is opened, because a checkpoint carries more
// than values.
struct Origin {
  std::optional<checkpoint::Checkpoint> resumed;  // the run's own newest one, or with `is_branch`
  bool is_branch = false;                         // that of another run, whose state it begins with
  std::optional<checkpoint::Checkpoint> weights;  // of another run or stage, which gives values alone
  std::string foreign;                            // a folder of another tool

  // For telling other ranks, which open the same checkpoint without verifying it once more.
  std::string to_bytes() const;
  static Origin from_bytes(const std::string& bytes);

  // The checkpoint with which the run goes on.
  const checkpoint::Checkpoint* own() const { return resumed && !is_branch ? &*resumed : nullptr; }
  const checkpoint::Checkpoint* checkpoint() const {
    return resumed ? &*resumed : weights ? &*weights : nullptr;
  }
};

// The newest checkpoint of the run itself that verifies; without any, what `init_from` names: a checkpoint, a
// run folder, a folder of another tool, or nothing where it is empty. What was repaired or passed over on the
// way is logged. Throws where the run has checkpoints and all are damaged: starting anew would lose it.
Origin find_origin(const config::Config& config, observe::Log& log, const RunFolder& folder,
                   const std::string& init_from);

// find_origin() for all ranks together: which checkpoint it is, is for rank 0 to say, as another rank might
// find a newer or another one.
Origin find_common_origin(const config::Config& config, observe::Log& log, ProcessGroup& processes,
                          const RunFolder& folder, const std::string& init_from);

// What options follow that are not set, where values come from there.
ValueSource values_of(const Origin& origin);

// Fills the strategy with the values of another run, of another tool (through the task), or with the task's
// own. Optimizer state starts at zero. Returns what was done, for people. Strict but for PL_PARAMETER_NEW and
// _DROPPABLE, which the log names: one error lists all missing, unexpected and mis-shaped tensors.
std::string load_weights(Session& session, const Origin& origin);

// The folders that a task's own initial values come from, part by part: its options of type path that are
// named init_from, where they are set. "task.language.init_from = models/llama".
std::vector<std::string> origins_of_parts(const Session& session);

// Loads all that a checkpoint of the very same model holds, also the optimizer's state: the run goes on.
void load_state(Session& session, const checkpoint::Checkpoint& from);
// Throws unless `from` has all the values, of which none may be missing: it would be used untrained.
// may_drop: it may have more, which it allows to be left out.
void require_values(Session& session, const checkpoint::Checkpoint& from, bool may_drop);
// Loads the values that `read` gives for a checkpoint's parameters.
void load_values(Session& session, const checkpoint::Checkpoint& from, const plugins::PieceReader& read);
// Reads a parameter's moving average in `from` for its value, where it is trained. Throws where there is
// none. `from` must outlive the reader.
plugins::PieceReader moving_average_in(const checkpoint::Checkpoint& from);

// Opens a checkpoint as checkpoint::open_any() does; what is passed over in the folder is logged.
checkpoint::Checkpoint open_checkpoint(const std::string& path, checkpoint::Which which, observe::Log& log);

}  // namespace pipeline::train
