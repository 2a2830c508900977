#include "core/train/session/update_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/abi_values.hpp"

namespace pipeline::train {
namespace {

double number(const config::Config& config, std::string_view name) {
  const std::string key = fmt::format("optimizer.{}", name);
  return config.setting(key).option.type == PL_OPTION_INT ? static_cast<double>(config.get_int(key))
                                                          : config.get_float(key);
}

plugins::Optimizer adamw(const config::Config& config) {
  plugins::Optimizer rule{.name = "adamw", .options = {}};
  for (const char* name : {"beta1", "beta2", "epsilon", "weight_decay"})
    rule.options[name] = number(config, name);
  // An older strategy has 32 alone.
  if (const double bits = number(config, "state_bits"); bits != 32) rule.options["state_bits"] = bits;
  return rule;
}

}  // namespace

UpdateRules::UpdateRules(const config::Config& config, const plugins::Plugin* plugin, bool training)
    : training_(training), plugin_(plugin) {
  const std::string& kind = config.get_string("optimizer.kind");
  if (plugin_ != nullptr) {
    if (config.is_set("optimizer.kind") && kind != "adamw")
      throw config.error("optimizer.kind", fmt::format("the rule is that of optimizer.plugin = \"{}\": leave "
                                                       "one of the two out",
                                                       plugin_->name()));
    if (plugin_->optimizer().transform != nullptr) of_matrices_ = plugin_->name();
  } else if (kind == "muon") {
    of_matrices_ = "Muon";
  }
  if (const int64_t bits = config.get_int("optimizer.state_bits"); bits != 32 && bits != 16 && bits != 8)
    throw config.error("optimizer.state_bits", "must be 32, 16 or 8");
}

void UpdateRules::check_options(const config::Config& config, const config::FindOwners& owners) {
  plugin_config_.emplace(
      config.plugin("optimizer", plugin_ ? plugin_->options() : std::span<const pl_option>(), owners));
}

const plugins::Optimizer& UpdateRules::create(const config::Config& config, plugins::Task& task,
                                              const pl_context& context) {
  if (training_ && !of_matrices_.empty()) require_matrices(config, task);
  if (plugin_ != nullptr) {
    rule_ = std::make_unique<plugins::UpdateRule>(*plugin_, context, &*plugin_config_);
    plugins::Optimizer rule{.name = plugin_->name(),
                            .options = {{"weight_decay", number(config, "weight_decay")}},
                            .rule = rule_.get()};
    if (of_matrices_.empty()) {
      optimizer_ = std::move(rule);
    } else {
      rule.flags |= PL_OPTIMIZER_WHOLE_TENSORS;
      optimizer_ = adamw(config);
      optimizer_.of_hidden_matrices.push_back(std::move(rule));
    }
  } else {
    add_known(config);
  }
  add_average(config);
  return optimizer_;
}

// Of a rule that strategies know by its name.
void UpdateRules::add_known(const config::Config& config) {
  const std::string& kind = config.get_string("optimizer.kind");
  optimizer_ = adamw(config);
  if (kind == "sgd")
    optimizer_ = {.name = kind,
                  .options = {{"momentum", number(config, "momentum")},
                              {"nesterov", config.get_bool("optimizer.nesterov") ? 1 : 0},
                              {"weight_decay", number(config, "weight_decay")}}};
  if (kind == "muon")
    optimizer_.of_hidden_matrices.push_back({.name = kind,
                                             .options = {{"momentum", number(config, "muon_momentum")},
                                                         {"steps", number(config, "muon_steps")},
                                                         {"weight_decay", number(config, "weight_decay")}},
                                             .flags = PL_OPTIMIZER_WHOLE_TENSORS});
}

void UpdateRules::add_average(const config::Config& config) {
  if (config.get_float("optimizer.ema_decay") == 0) return;
  const auto add = [&](plugins::Optimizer& rule) {
    for (const char* name : {"ema_decay", "ema_every", "ema_start"})
      rule.options[name] = number(config, name);
  };
  add(optimizer_);
  for (plugins::Optimizer& other : optimizer_.of_hidden_matrices) add(other);
}

void UpdateRules::require_matrices(const config::Config& config, plugins::Task& task) const {
  const auto fits = [](const pl_parameter& parameter) {
    return (parameter.flags & PL_PARAMETER_TRAINABLE) && (parameter.flags & PL_PARAMETER_HIDDEN_MATRIX);
  };
  if (std::ranges::any_of(task.parameters(), fits)) return;
  throw config.error(plugin_ ? "optimizer.plugin" : "optimizer.kind",
                     fmt::format("{} trains no matrices that it says are of hidden layers: {}",
                                 task.plugin().label(), plugin_ ? "leave it out" : "use \"adamw\""));
}

}  // namespace pipeline::train
