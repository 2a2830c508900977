#include "core/train/run/announce.hpp"

#include <map>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/launch/devices.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"
#include "core/train/run/process_group.hpp"

namespace pipeline::train {

void announce(observe::Log& log, std::string_view word, const std::string& text) {
  log.info(fmt::format("{:<11}{}", word, text));
}

void announce_place(const Session& session) {
  const pl_run_info& info = session.run_info();
  const World& world = session.processes().world();
  announce(session.log(), "device",
           fmt::format("{}, {} thread{}", launch::describe(info.device, session.devices()), info.threads,
                       info.threads == 1 ? "" : "s"));
  announce(session.log(), "processes",
           fmt::format("{}{}; this is rank {}, local rank {} on host {}", info.world_size,
                       world.launcher.empty() ? "" : fmt::format(", started by {}", world.launcher),
                       info.rank, info.local_rank, host_name()));
  if (info.threads > session.devices().cores)
    session.log().warning(
        fmt::format("launch.threads = {}: this process has {} core{}, on which that many threads wait for "
                    "each other: leave it out to use the cores there are",
                    info.threads, session.devices().cores, session.devices().cores == 1 ? "" : "s"));
}

void warn_of_unused_options(const Session& session) {
  const config::Config& config = session.config();
  const auto unused = [&](const char* key, const std::string& why) {
    if (config.is_set(key))
      session.log().warning(fmt::format("{} = {} has no effect: {}", key, config.show(key), why));
  };
  const auto because = [&](const char* key) { return fmt::format("{} is {}", key, config.show(key)); };
  const std::string optimizer = because("optimizer.kind");
  if (config.get_string("optimizer.kind") == "sgd") {
    for (const char* key : {"optimizer.beta1", "optimizer.beta2", "optimizer.epsilon"})
      unused(key, optimizer);
  } else {
    for (const char* key : {"optimizer.momentum", "optimizer.nesterov"}) unused(key, optimizer);
  }
  if (config.get_string("schedule.kind") == "constant")
    unused("schedule.min_lr_ratio", because("schedule.kind"));
  if (config.get_string("schedule.lr_scaling") == "none")
    unused("schedule.base_batch", because("schedule.lr_scaling"));
  if (!config.get_bool("loader.group_by_length"))
    unused("loader.group_window", because("loader.group_by_length"));
  if (config.get_int("loader.workers") == 0) unused("loader.prefetch", because("loader.workers"));
  if (!session.precision().loss_scaling)
    for (const char* key : {"train.loss_scale", "train.loss_scale_interval"})
      unused(key, "the precision is " + session.precision().name);
}

double measure_peak_flops(Session& session) {
  const auto* extension =
      static_cast<const pl_peak_flops*>(session.strategy_plugin().query(PL_EXTENSION_PEAK_FLOPS));
  if (extension == nullptr || !PL_HAS(pl_peak_flops, extension, measure)) return 0;
  double per_device = 0;
  const plugins::Plugin& plugin = session.strategy_plugin();
  try {
    check(plugins::contain(plugin, "measure", [&] {
      return extension->measure(&plugins::host_table(), &session.run_info(), &per_device);
    }));
  } catch (const Error& error) {
    session.log().warning(
        fmt::format("no MFU: the peak could not be measured: {}: {}", plugin.label(), error.what()));
    return 0;
  }
  announce(session.log(), "peak",
           fmt::format("{:.3g} GFLOP/s per device, measured; MFU is the task's FLOPs a second against that",
                       per_device / 1e9));
  return per_device * session.run_info().world_size;
}

ParameterCount count_parameters(Session& session) {
  ParameterCount count;
  for (const pl_parameter& parameter : session.task().parameters()) {
    count.total += plugins::element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_TRAINABLE) == 0) continue;
    count.trainable += plugins::element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_DECAY) != 0) count.decayed += plugins::element_count(parameter);
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
    per_unit[parameter.unit] += plugins::element_count(parameter);
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
