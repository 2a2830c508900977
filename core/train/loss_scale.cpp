#include "core/train/loss_scale.hpp"

#include <nlohmann/json.hpp>

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

}  // namespace pipeline::train
