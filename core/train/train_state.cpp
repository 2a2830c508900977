#include "core/train/train_state.hpp"

#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"

namespace pipeline::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Patience, metric, reference, step, waited)

void to_json(nlohmann::json& json, const Best& best) {
  json = {{"metric", best.metric},
          {"value", best.value},
          {"step", best.step},
          {"better", best.higher_is_better ? "higher" : "lower"}};
}

void from_json(const nlohmann::json& json, Best& best) {
  json.at("metric").get_to(best.metric);
  json.at("value").get_to(best.value);
  json.at("step").get_to(best.step);
  best.higher_is_better = json.value("better", "lower") == "higher";  // not in older checkpoints
}

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
    fail(PL_ERROR_CORRUPT, "{}: the training state cannot be read: {}", where, error.what());
  }
}

}  // namespace pipeline::train
