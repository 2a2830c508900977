#include "core/train/run/model_file.hpp"

#include <map>

#include <nlohmann/json.hpp>

#include "core/base/dtype.hpp"
#include "core/base/str.hpp"
#include "core/train/run/initial_values.hpp"

namespace pipeline::train {

ParameterCount count_parameters(Session& session) {
  ParameterCount count;
  for (const pl_parameter& parameter : session.task().parameters()) {
    count.total += element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_TRAINABLE) == 0) continue;
    count.trainable += element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_DECAY) != 0) count.decayed += element_count(parameter);
  }
  return count;
}

std::string model_json(Session& session) {
  nlohmann::ordered_json json;
  const ParameterCount count = count_parameters(session);
  json["parameters"] = {
      {"total", count.total}, {"trainable", count.trainable}, {"weight_decay", count.decayed}};
  const pl_strategy_info& info = session.strategy().info();
  json["dtypes"] = {{"parameter", precision_name(session.precision().parameter)},
                    {"compute", precision_name(session.precision().compute)},
                    {"gradient", precision_name(info.gradient_dtype)},
                    {"reduction", precision_name(info.reduction_dtype)},
                    {"master", precision_name(info.master_dtype)},
                    {"optimizer", precision_name(info.optimizer_dtype)}};
  nlohmann::ordered_json bytes = nlohmann::ordered_json::object();
  for (const auto& [what, size] : session.strategy().memory()) bytes[what] = size;
  json["bytes"] = bytes;

  std::map<uint32_t, uint64_t> per_unit;
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
  for (const pl_parameter& parameter : session.task().parameters()) {
    per_unit[parameter.unit] += element_count(parameter);
    parameters.push_back({{"name", view(parameter.name)},
                          {"shape", std::vector<int64_t>(parameter.shape, parameter.shape + parameter.ndim)},
                          {"unit", parameter.unit},
                          {"trainable", (parameter.flags & PL_PARAMETER_TRAINABLE) != 0},
                          {"weight_decay", (parameter.flags & PL_PARAMETER_DECAY) != 0}});
  }
  nlohmann::ordered_json units = nlohmann::ordered_json::array();
  for (const auto& [unit, elements] : per_unit) units.push_back({{"unit", unit}, {"parameters", elements}});
  json["units"] = units;
  json["tensors"] = parameters;
  return json.dump(2) + "\n";
}

}  // namespace pipeline::train
