// A run whose checkpoints and records others have taken away: it ends, as all that it computes would be lost.
#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/train/trainer.hpp"

namespace pipeline::train {

// As rank 0 sees it; empty: nothing.
std::string Trainer::lost(bool at_end) const {
  for (const std::string& part : {folder_.lost(), records_->lost(at_end), checkpointer_.lost()})
    if (!part.empty()) return part;
  return "";
}

// All ranks together. Where the folder is still there, what was learnt is saved first.
void Trainer::end_if_lost(const std::string& lost) {
  if (lost.empty()) return;
  is_ending_ = true;
  const std::string place = processes_.on_first("looking at the run folder", [this] {
    if (!folder_.is_in_place()) return std::string("no");
    try {
      folder_.lock_again();
    } catch (const Error&) {  // it is being removed right now
      return std::string("no");
    }
    return std::string(checkpointer_.lost().empty() ? "yes" : "without its last checkpoint");
  });
  const bool has_place = place != "no";
  if (place == "without its last checkpoint") checkpointer_.forget_saved();
  if (has_place) save(true);
  log_.console().status({});
  if (!processes_.is_first()) throw Error(PL_ERROR_PEER, lost);
  throw Error(lost + (has_place ? fmt::format("; step {} was saved, and the same command goes on from it",
                                              state_.step)
                                : fmt::format("; the run ends after step {}", state_.step)));
}

}  // namespace pipeline::train
