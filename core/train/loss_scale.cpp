#include "core/train/loss_scale.hpp"

#include <nlohmann/json.hpp>

namespace pipeline::train {

void LossScale::update(bool finite) {
  if (!finite) {
    // Above 1 the scale itself explains an overflow, and halving it is the cure.
    if (scale_ <= 1) ++in_a_row_;
    ++total_;
    finite_steps_ = 0;
    if (options_.dynamic) scale_ /= 2;
    return;
  }
  in_a_row_ = 0;
  if (options_.dynamic && ++finite_steps_ == options_.growth_interval) {
    scale_ *= 2;
    finite_steps_ = 0;
  }
}

nlohmann::json LossScale::state() const {
  return {{"scale", scale_}, {"finite_steps", finite_steps_}, {"nonfinite_in_a_row", in_a_row_}, {"nonfinite_total", total_}};
}

void LossScale::load_state(const nlohmann::json& state) {
  scale_ = state.at("scale").get<double>();
  finite_steps_ = state.at("finite_steps").get<uint64_t>();
  in_a_row_ = state.at("nonfinite_in_a_row").get<uint64_t>();
  total_ = state.at("nonfinite_total").get<uint64_t>();
}

}  // namespace pipeline::train
