// How the trainer ends a run that learns no more. All ranks together: they all see the same reports.
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/train/trainer.hpp"

namespace pipeline::train {

// The report of the last step is waited for only where it can be the one too many.
void Trainer::end_if_skipping() {
  const uint64_t most = every("train.max_nonfinite_steps");
  if (!pending_ || state_.loss_scale.nonfinite_in_a_row() + 1 < most) return;
  collect_all();
  if (state_.loss_scale.nonfinite_in_a_row(last_finite_) >= most)
    end_badly({fmt::format("train.max_nonfinite_steps = {} ends the run here", most)});
}

// What is not known to be ruined is saved first: it was trained at some cost.
void Trainer::end_badly(std::vector<std::string> signs) {
  collect_all();
  if (state_.health.skipped() == 0 || state_.health.skips_on_sound_weights())
    if (std::string ruined = write_checkpoint(true); !ruined.empty()) signs.push_back(std::move(ruined));
  end_diverged(std::move(signs));
}

void Trainer::end_diverged(std::vector<std::string> signs) {
  checkpointer_.finish();
  log_.console().status({});
  summarize(false);
  processes_.on_first("ending the run", [&] {
    Divergence divergence{
        .health = state_.health, .signs = std::move(signs), .last_good = "", .set_aside = {}};
    checkpointer_.set_aside(state_.step, divergence);
    const std::string text = describe(divergence, config_, session_.precision().name);
    folder_.mark_diverged(text);
    throw Error(PL_ERROR_CONFIG, text);  // the same again would end so again: it is not restarted
  });
  throw Error(PL_ERROR_PEER, "rank 0 has ended the run");  // which ends this one first
}

}  // namespace pipeline::train
