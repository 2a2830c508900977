#include "core/train/train_state.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/program.hpp"

namespace pipeline::train {
namespace {

std::string advice(const Divergence& divergence, const config::Config& config, const std::string& precision) {
  const double lr = config.options().optimizer.lr;
  const config::TrainOptions& train = config.options().train;
  std::string text =
      divergence.last_good.empty()
          ? fmt::format("start over with --fresh and a lower optimizer.lr (it was {:g})", lr)
          : fmt::format("go on from there with --change optimizer.lr={:g} (it was {:g})", lr / 10, lr);
  const bool by_value = train.clip_grad_value > 0;
  const char* clip = by_value ? "train.clip_grad_value" : "train.clip_grad_norm";
  text += fmt::format("; schedule.warmup_steps ({}) and {} ({}{}) help, too",
                      config.show("schedule.warmup_steps"), clip, config.show(clip),
                      (by_value ? train.clip_grad_value : train.clip_grad_norm) == 0 ? ", off" : "");
  if (precision != "fp32")
    text += fmt::format("; or start over with --fresh and another train.precision (it was {})", precision);
  return text + "; or look at the data";
}

}  // namespace

bool Health::is_sound(double loss) const {
  constexpr double kMost = 10;  // times the first one, or 1, as that may be next to nothing
  return std::abs(loss) <= kMost * std::max(1.0, std::abs(first_loss_.value_or(0)));
}

void Health::add_step(uint64_t step, double loss, bool updated) {
  step_ = step;
  if (std::isfinite(loss)) {
    if (!first_loss_) first_loss_ = loss;
    if (is_sound(loss)) sound_ = std::max(sound_, step - 1);
    last_finite_loss_ = Loss{step, loss};
  }
  if (updated) {
    updated_ = step;
  } else if (sound_ >= updated_) {
    sound_ = step;  // the weights are still the same
  }
}

void Health::add_evaluation(uint64_t step, double loss, std::string problem) {
  bad_evaluation_ = std::move(problem);
  if (bad_evaluation_.empty() && is_sound(loss)) sound_ = std::max(sound_, step);
}

nlohmann::json Health::state() const {
  nlohmann::json json{{"step", step_}, {"updated", updated_}, {"sound", sound_}};
  if (!bad_evaluation_.empty()) json["bad_evaluation"] = bad_evaluation_;
  if (first_loss_) json["first_loss"] = *first_loss_;
  if (last_finite_loss_)
    json["last_finite_loss"] = {{"step", last_finite_loss_->step}, {"value", last_finite_loss_->value}};
  return json;
}

void Health::load_state(const nlohmann::json& state) {
  step_ = state.at("step").get<uint64_t>();
  updated_ = state.at("updated").get<uint64_t>();
  sound_ = state.at("sound").get<uint64_t>();
  bad_evaluation_ = state.value("bad_evaluation", "");
  if (state.contains("first_loss")) first_loss_ = state["first_loss"].get<double>();
  if (state.contains("last_finite_loss")) {
    const nlohmann::json& loss = state["last_finite_loss"];
    last_finite_loss_ = Loss{loss.at("step").get<uint64_t>(), loss.at("value").get<double>()};
  }
}

std::string describe(const Divergence& divergence, const config::Config& config,
                     const std::string& precision) {
  const Health& health = divergence.health;
  std::vector<std::string> signs;
  if (health.skipped() > 0)
    signs.push_back(fmt::format(
        "the gradient was not finite, and the update was skipped, in {} step{} in a row, from step {} on",
        health.skipped(), health.skipped() == 1 ? "" : "s", health.first_skipped()));
  if (!health.bad_evaluation().empty()) signs.push_back(health.bad_evaluation());
  signs.insert(signs.end(), divergence.signs.begin(), divergence.signs.end());
  std::string text = fmt::format("the run has diverged: {}", fmt::join(signs, "; "));
  const auto& loss = health.last_finite_loss();
  text += "\n  last finite loss: " +
          (loss ? fmt::format("{:.6g}, in step {}", loss->value, loss->step) : std::string("none"));
  text +=
      "\n  last good checkpoint: " + (divergence.last_good.empty() ? "none" : as_shown(divergence.last_good));
  if (!divergence.set_aside.empty())
    text += fmt::format("\n  set aside, not to be gone on from: {}", fmt::join(divergence.set_aside, ", "));
  return text + "\n  what to do: " + advice(divergence, config, precision);
}

}  // namespace pipeline::train
