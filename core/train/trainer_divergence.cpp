// What the trainer does about updates that are skipped, and how it ends a run that learns no more. All ranks
// together: they all see the same reports.
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/train/trainer.hpp"

namespace pipeline::train {

void Trainer::report_skipped(uint64_t step) {
  constexpr size_t kNamed = 8;
  if (state_.loss_scale.dynamic() && state_.loss_scale.value() > 1) {
    log_.debug(fmt::format("step {}: fp16 overflow at loss scale {}; the update was skipped", step + 1,
                           state_.loss_scale.value()));
    return;
  }
  std::vector<std::string> names;
  size_t count = 0;
  for (uint64_t m = 0; m < session_.plan().micro_batches; ++m)
    for (const uint64_t id : sampler_.micro_batch(step, m))
      if (++count <= kNamed) names.push_back(session_.task().sample_name(PL_SPLIT_TRAIN, id));
  log_.warning(fmt::format("step {}: the gradient is not finite; the update was skipped. Samples: {}{}",
                           step + 1, fmt::join(names, ", "),
                           count > kNamed ? fmt::format(" and {} more", count - kNamed) : ""));
}

// The report of the last step is waited for only where it can be the one too many.
void Trainer::end_if_skipping() {
  const uint64_t most = options_.train.max_nonfinite_steps;
  if (!reports_.pending() || state_.loss_scale.nonfinite_in_a_row() + 1 < most) return;
  reports_.collect_all();
  if (state_.loss_scale.nonfinite_in_a_row(reports_.unapplied()) >= most)
    end_badly({fmt::format("train.max_nonfinite_steps = {} ends the run here", most)});
}

// What is not known to be ruined is saved first: it was trained at some cost.
void Trainer::end_badly(std::vector<std::string> signs) {
  reports_.collect_all();
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
