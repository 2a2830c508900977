#include "core/train/train_state.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace pipeline::train {

uint64_t LossScale::nonfinite_in_a_row(std::optional<bool> next) const {
  if (!next) return in_a_row_;
  if (*next) return 0;
  // Above 1 the scale itself explains an overflow, and halving it is the cure.
  return scale_ <= 1 ? in_a_row_ + 1 : in_a_row_;
}

void LossScale::update(bool finite) {
  in_a_row_ = nonfinite_in_a_row(finite);
  if (!finite) {
    ++total_;
    finite_steps_ = 0;
    if (options_.dynamic) scale_ /= 2;
    return;
  }
  if (options_.dynamic && ++finite_steps_ >= options_.growth_interval) {
    scale_ *= 2;
    finite_steps_ = 0;
  }
}

nlohmann::json LossScale::state() const {
  return {{"scale", scale_},
          {"finite_steps", finite_steps_},
          {"nonfinite_in_a_row", in_a_row_},
          {"nonfinite_total", total_}};
}

void LossScale::load_state(const nlohmann::json& state) {
  scale_ = state.at("scale").get<double>();
  finite_steps_ = state.at("finite_steps").get<uint64_t>();
  in_a_row_ = state.at("nonfinite_in_a_row").get<uint64_t>();
  total_ = state.at("nonfinite_total").get<uint64_t>();
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Best, metric, value, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Patience, metric, reference, step, waited)

LossScale::Options loss_scale_options(const Session& session) {
  return {.dynamic = session.precision().loss_scaling,
          .initial = session.options().train.loss_scale,
          .growth_interval = session.options().train.loss_scale_interval};
}

std::string TrainState::to_json() const {
  nlohmann::json json{
      {"step", step}, {"seconds", seconds}, {"loss_scale", loss_scale.state()}, {"health", health.state()}};
  if (unapplied) json["unapplied"] = *unapplied;
  if (best) json["best"] = *best;
  if (patience) json["patience"] = *patience;
  return json.dump();
}

TrainState TrainState::from_json(const std::string& text, const LossScale::Options& options,
                                 const std::string& where) {
  try {
    const auto json = nlohmann::json::parse(text);
    TrainState state;
    state.step = json.at("step").get<uint64_t>();
    state.seconds = json.at("seconds").get<double>();
    state.loss_scale = LossScale(options);
    state.loss_scale.load_state(json.at("loss_scale"));
    state.health = Health(state.step);
    if (json.contains("health")) state.health.load_state(json["health"]);  // not in older checkpoints
    if (json.contains("unapplied")) state.unapplied = json["unapplied"].get<bool>();
    if (json.contains("best")) state.best = json["best"].get<Best>();
    if (json.contains("patience")) state.patience = json["patience"].get<Patience>();
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(PL_ERROR_CORRUPT,
                fmt::format("{}: the training state cannot be read: {}", where, error.what()));
  }
}

}  // namespace pipeline::train
