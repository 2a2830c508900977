#include "core/train/train_state.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace pipeline::train {

std::string TrainState::to_json() const {
  nlohmann::json json{{"step", step}, {"seconds", seconds}, {"loss_scale", loss_scale.state()}};
  if (unapplied) json["unapplied"] = *unapplied;
  if (best) json["best"] = {{"metric", best->metric}, {"value", best->value}, {"step", best->step}};
  return json.dump();
}

TrainState TrainState::from_json(const std::string& text, const LossScale::Options& options, const std::string& where) {
  try {
    const auto json = nlohmann::json::parse(text);
    TrainState state;
    state.step = json.at("step").get<uint64_t>();
    state.seconds = json.at("seconds").get<double>();
    state.loss_scale = LossScale(options);
    state.loss_scale.load_state(json.at("loss_scale"));
    if (json.contains("unapplied")) state.unapplied = json["unapplied"].get<bool>();
    if (json.contains("best")) 
      state.best = Best{json["best"].at("metric").get<std::string>(), json["best"].at("value").get<double>(), json["best"].at("step").get<uint64_t>()};
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(PL_ERROR_CORRUPT, fmt::format("{}: the training state cannot be read: {}", where, error.what()));
  }
}

}  // namespace pipeline::train
