#include "core/train/session/session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"

namespace pipeline::train {
namespace {

plugins::Optimizer adamw(const config::RuleOptions& options) {
  plugins::Optimizer rule{.name = "adamw",
                          .options = {{"beta1", options.beta1},
                                      {"beta2", options.beta2},
                                      {"epsilon", options.epsilon},
                                      {"weight_decay", options.weight_decay}}};
  // An older strategy has 32 alone.
  if (options.state_bits != 32) rule.options["state_bits"] = static_cast<double>(options.state_bits);
  return rule;
}

plugins::Optimizer sgd(const config::RuleOptions& options) {
  return {.name = "sgd",
          .options = {{"momentum", options.momentum},
                      {"nesterov", options.nesterov ? 1 : 0},
                      {"weight_decay", options.weight_decay}}};
}

plugins::Optimizer muon(const config::RuleOptions& options) {
  return {.name = "muon",
          .options = {{"momentum", options.muon_momentum},
                      {"steps", static_cast<double>(options.muon_steps)},
                      {"weight_decay", options.weight_decay}},
          .flags = PL_OPTIMIZER_WHOLE_TENSORS};
}

// A rule that strategies know by its name.
plugins::Optimizer known_rule(const std::string& kind, const config::RuleOptions& options) {
  if (kind == "sgd") return sgd(options);
  plugins::Optimizer rule = adamw(options);
  if (kind == "muon") rule.of_hidden_matrices.push_back(muon(options));
  return rule;
}

// The run's rule with the loss's own options.
plugins::Optimizer rule_of(const plugins::Loss& loss, plugins::Optimizer rule, const std::string& task) {
  std::vector<plugins::Optimizer*> all{&rule};
  for (plugins::Optimizer& other : rule.of_hidden_matrices) all.push_back(&other);
  for (const auto& [name, value] : loss.options) {
    bool is_known = false;
    std::set<std::string> known;
    for (plugins::Optimizer* each : all)
      for (auto& [key, its] : each->options) {
        known.insert(key);
        if (key != name) continue;
        its = value;
        is_known = true;
      }
    if (!is_known)
      fail(PL_ERROR_CONFIG, "{}: loss '{}' sets {} = {}, which is no option of the optimizer {}: it has {}",
           task, loss.name, name, value, rule.name, fmt::join(known, ", "));
  }
  return rule;
}

}  // namespace

UpdateRules::UpdateRules(const config::Config& config, const plugins::Plugin* plugin, bool training)
    : training_(training), plugin_(plugin) {
  const std::string& kind = config.options().optimizer.kind;
  if (plugin_ != nullptr) {
    if (config.is_set("optimizer.kind") && kind != "adamw")
      throw config.error(
          "optimizer.kind",
          fmt::format("the rule is that of optimizer.plugin = \"{}\": leave one of the two out",
                      plugin_->name()));
    if (plugin_->optimizer().transform != nullptr) of_matrices_ = plugin_->name();
  } else if (kind == "muon") {
    of_matrices_ = "Muon";
  }
  if (const uint64_t bits = config.options().rule.state_bits; bits != 32 && bits != 16 && bits != 8)
    throw config.error("optimizer.state_bits", "must be 32, 16 or 8");
}

void UpdateRules::check_options(const config::Config& config, const config::FindOwners& owners) {
  plugin_config_.emplace(
      config.plugin("optimizer", plugin_ ? plugin_->options() : std::span<const pl_option>(), owners));
}

const std::vector<plugins::Optimizer>& UpdateRules::create(const config::Config& config, plugins::Task& task,
                                                           const pl_context& context) {
  if (training_ && !of_matrices_.empty()) require_matrices(config, task);
  if (plugin_ != nullptr) {
    rule_ = std::make_unique<plugins::UpdateRule>(*plugin_, context, &*plugin_config_);
    plugins::Optimizer rule{.name = plugin_->name(),
                            .options = {{"weight_decay", config.options().rule.weight_decay}},
                            .rule = rule_.get()};
    if (of_matrices_.empty()) {
      optimizer_ = std::move(rule);
    } else {
      rule.flags |= PL_OPTIMIZER_WHOLE_TENSORS;
      optimizer_ = adamw(config.options().rule);
      optimizer_.of_hidden_matrices.push_back(std::move(rule));
    }
  } else {
    optimizer_ = known_rule(config.options().optimizer.kind, config.options().rule);
  }
  for (const plugins::Loss& loss : task.losses())
    of_losses_.push_back(rule_of(loss, optimizer_, task.plugin().label()));
  if (of_losses_.empty()) of_losses_.push_back(optimizer_);
  for (plugins::Optimizer& optimizer : of_losses_) add_average(optimizer, config.options().average);
  return of_losses_;
}

void UpdateRules::add_average(plugins::Optimizer& optimizer, const config::AverageOptions& average) {
  if (average.decay == 0) return;
  const auto add = [&](plugins::Optimizer& rule) {
    rule.options["ema_decay"] = average.decay;
    rule.options["ema_every"] = static_cast<double>(average.every);
    rule.options["ema_start"] = static_cast<double>(average.start);
  };
  add(optimizer);
  for (plugins::Optimizer& other : optimizer.of_hidden_matrices) add(other);
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
