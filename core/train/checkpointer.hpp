// When checkpoints are written, by whom, and what a full disk means: the loop's side of core/checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/checkpoint/store.hpp"
#include "core/checkpoint/writer.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/session.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

// Used from one thread.
class Checkpointer {
 public:
  Checkpointer(Session& session, const RunFolder& folder);

  // Throws when the run that `from` belongs to was another one: other options, other data, or in reproducible
  // mode another micro-batch, number of threads, device, precision or library. What --change names is added
  // to the changes of that run. False: there is nothing new among them.
  bool continue_changed(const checkpoint::Checkpoint& from);
  // Begins a run with the state in `from`, which is another run's. Throws where it may not.
  void begin_branch(const checkpoint::Checkpoint& from);
  // Begins a run with what --change names, and named before there was a checkpoint.
  void begin_changed();
  // What was changed on the way, in this launch and before.
  const std::vector<checkpoint::Change>& changes() const { return changes_; }

  // Throws where weights that are to be trained are not finite. `weights`: which ones, for people.
  void require_finite(const std::string& weights) const;

  bool due(uint64_t step) const;
  // Writes what the strategy holds after state.step steps; in the background unless `wait`. A full disk is an
  // error, or a warning where checkpoint.on_full_disk says so and `wait` is not set. With `wait` weights that
  // are not finite are not written: returns the names of such parameters. All ranks together.
  std::vector<std::string> save(const TrainState& state, const std::optional<checkpoint::Metric>& metric,
                                bool wait);
  // Tells of what was written since the last call.
  void poll();
  void finish();
  // For a run that has diverged: names the last good checkpoint, and sets aside those after it. On rank 0,
  // when nothing is being written.
  void set_aside(uint64_t step, Divergence& divergence);

  // The last checkpoint, if it was written by this process and is not there any more; otherwise empty.
  std::string lost() const;
  // Is there a checkpoint of this step, and (`with_metric`) one that says how good it is?
  bool saved(uint64_t step, bool with_metric) const;
  void continue_from(uint64_t step, bool has_metric);
  // The last checkpoint was lost: its step is to be saved again. All ranks together.
  void forget_saved() { saved_step_ = ~uint64_t{0}; }

 private:
  std::vector<std::string> ruined_on_any_rank(const checkpoint::PieceSource& pieces) const;
  void require_same_numbers(const checkpoint::Checkpoint& from) const;
  void tell_of_other_task(const checkpoint::Checkpoint& from) const;
  void tell(const std::optional<checkpoint::Saved>& saved);
  template <class Function>
  void guarded(bool strict, Function&& function);

  Session& session_;
  observe::Log& log_;
  const RunFolder& folder_;
  checkpoint::Store store_;
  checkpoint::Group group_;
  checkpoint::Constant constant_;  // what is frozen
  checkpoint::LeftOut left_out_;   // or that of it which is in no checkpoint
  checkpoint::BackgroundWriter writer_;
  std::vector<checkpoint::Change> changes_;
  uint64_t every_ = 0;
  double every_seconds_ = 0;
  std::string last_;  // path of the newest that was written
  uint64_t saved_step_ = ~uint64_t{0};
  bool saved_metric_ = false;
  double saved_at_ = 0;  // monotonic seconds
};

}  // namespace pipeline::train
