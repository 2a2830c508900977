#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/config/config.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/strategy.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::train {

// The update rules of a run: [optimizer].
class UpdateRules {
 public:
  static constexpr const char* kNoPlugin = "none";  // of optimizer.plugin

  // `plugin`: that brings the rule; nullptr: strategies know it by name, or nothing is trained. Throws
  // ConfigError where options contradict each other.
  UpdateRules(const config::Config& config, const plugins::Plugin* plugin, bool training);
  // Throws ConfigError for options that are not the plugin's, nor the program's.
  void check_options(const config::Config& config, const config::FindOwners& owners);

  const plugins::Plugin* plugin() const { return plugin_; }  // nullptr: strategies know the rule by name
  const config::PluginConfig* plugin_config() const { return plugin_config_ ? &*plugin_config_ : nullptr; }
  // "Muon": what updates the matrices of hidden layers alone; empty: there is no such rule.
  const std::string& of_matrices() const { return of_matrices_; }

  // The rules as strategies take them: `context`, in which a plugin's rule is made, and this object must
  // outlive them. Throws ConfigError where the task trains nothing that a rule is for. Called once.
  const plugins::Optimizer& create(const config::Config& config, plugins::Task& task,
                                   const pl_context& context);
  const plugins::Optimizer& created() const { return optimizer_; }

 private:
  void add_average(const config::AverageOptions& average);
  void require_matrices(const config::Config& config, plugins::Task& task) const;

  bool training_;
  const plugins::Plugin* plugin_ = nullptr;
  std::optional<pl_config> plugin_config_;
  std::string of_matrices_;
  std::unique_ptr<plugins::UpdateRule> rule_;
  plugins::Optimizer optimizer_;
};

}  // namespace pipeline::train
