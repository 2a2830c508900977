// What a checkpoint holds besides tensors so that a run continues exactly. The data position is the step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/config/config.hpp"
#include "core/train/loss_scale.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// Whether a run still learns, by the steps whose reports have been collected: which updates were skipped, and
// up to where its weights are known to be good. A gradient can be finite and its update still ruin the
// weights: that shows in the first loss that is made with them, one step later. That loss may be finite, too:
// so one far above the first one of the run tells nothing good either.
class Health {
 public:
  // For a run that goes on after `step` updates, of which no more is known.
  explicit Health(uint64_t step = 0) : step_(step), updated_(step) {}

  // `updated`: the gradient was finite, so that there was an update.
  void add_step(uint64_t step, double loss, bool updated);
  // `problem`: what of it was not finite, for people; empty: nothing.
  void add_evaluation(uint64_t step, double loss, std::string problem);

  // Updates that were skipped in a row, up to the last step.
  uint64_t skipped() const { return step_ - updated_; }
  uint64_t first_skipped() const { return updated_ + 1; }
  // The newest step after which the weights are known to be good; before the updates that were skipped at the
  // end.
  uint64_t sound() const { return sound_; }
  uint64_t sound_before_skips() const { return std::min(sound_, updated_); }
  // Are the weights still those that were sound before updates were skipped?
  bool skips_on_sound_weights() const { return skipped() > 0 && sound_ >= step_; }
  const std::string& bad_evaluation() const { return bad_evaluation_; }
  // Whether a run that ends here has not learnt what it should. A single update that is skipped on sound
  // weights is a bad batch, or fp16's loss scale at work.
  bool ends_badly() const {
    const bool harmless = skipped() == 1 && skips_on_sound_weights() && updated_ > 0;
    return !bad_evaluation_.empty() || (skipped() > 0 && !harmless);
  }

  struct Loss {
    uint64_t step = 0;
    double value = 0;
  };
  const std::optional<Loss>& last_finite_loss() const { return last_finite_loss_; }

  nlohmann::json state() const;
  // Throws nlohmann::json::exception.
  void load_state(const nlohmann::json& state);

 private:
  bool is_sound(double loss) const;

  uint64_t step_, updated_;  // the last one, and the last one with an update
  uint64_t sound_ = 0;
  std::string bad_evaluation_;  // the last one, if it was
  std::optional<double> first_loss_;
  std::optional<Loss> last_finite_loss_;
};

// The end of a run that has diverged.
struct Divergence {
  Health health;
  std::vector<std::string> signs;      // besides what `health` knows: "wte.weight is not finite"
  std::string last_good;               // checkpoint from before it; empty: there is none
  std::vector<std::string> set_aside;  // checkpoints that were renamed, as they are none to go on from
};

// What happened, and what to do about it, in lines for people.
std::string describe(const Divergence& divergence, const config::Config& config,
                     const std::string& precision);

// The options by [train], for the session's precision.
LossScale::Options loss_scale_options(const Session& session);

struct Best {
  std::string metric;
  double value = 0;
  uint64_t step = 0;
  bool higher_is_better = false;
};
// As checkpoints and summary.json have it.
void to_json(nlohmann::json& json, const Best& best);

// The state of evaluate.patience: what figures must be better than, and how many in a row have not been.
struct Patience {
  std::string metric;
  double reference = 0;
  uint64_t step = 0;  // of the reference
  uint64_t waited = 0;
};

struct TrainState {
  uint64_t step = 0;   // optimizer steps done
  double seconds = 0;  // spent training, over all processes that continued this run
  LossScale loss_scale{{}};
  std::optional<bool> unapplied;  // was the last step finite? loss_scale learns of it one step late
  Health health;
  std::optional<Best> best;  // by evaluate.best_metric as it was then
  std::optional<Patience> patience;

  std::string to_json() const;
  // Throws pipeline::Error (PL_ERROR_CORRUPT) naming `where`.
  static TrainState from_json(const std::string& text, const LossScale::Options& options,
                              const std::string& where);
};

}  // namespace pipeline::train
