#include "adapters/lora_options.hpp"

#include <fnmatch.h>

#include <set>

namespace pipeline::adapters {

void LoraOptions::start(ParameterRegistry& parameters, const AdaptedModel& model) const {
  if (init_from.empty()) return;
  if (rank == 0)
    fail_with(PL_ERROR_CONFIG, "lora.rank = 0: must be that of the adapter, ", init_from.string());
  start_from_adapter(init_from.string(), parameters, model);
}

void tell_adapter(const ModelOptions& say, const std::string& table, const AdaptedModel& model,
                  const LoraOptions& run, const std::string& base) {
  if (run.init_from.empty()) {
    if (run.rank > 0 && !base.empty()) say(table + "base_model", base, base);
    return;
  }
  const std::string folder = run.init_from.string();
  const LoraConfig theirs = read_adapter(folder, model);
  const auto tell = [&](const char* key, const auto& value) { say(table + key, value, folder); };
  tell("rank", theirs.rank);
  tell("alpha", theirs.alpha);
  tell("rank_pattern", theirs.rank_pattern);
  tell("alpha_pattern", theirs.alpha_pattern);
  tell("use_rslora", theirs.use_rslora);
  tell("dropout", theirs.dropout);
  tell("targets", theirs.targets);
  tell("modules_to_save", theirs.modules_to_save);
  if (!base.empty()) say(table + "base_model", base, base);
}

bool Freeze::operator()(const std::string& name) {
  bool is_frozen = false;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (fnmatch(patterns_[i].c_str(), name.c_str(), 0) != 0) continue;
    used_[i] = is_frozen = true;
  }
  return is_frozen;
}

std::string Freeze::problem(const ParameterRegistry& parameters) const {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (used_[i]) continue;
    std::set<std::string> parts;
    for (const Parameter& parameter : parameters)
      parts.insert(parameter.name.substr(0, parameter.name.find('.')) + ".*");
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return concat("\"", patterns_[i], "\" matches no parameter; there are ", text);
  }
  return "";
}

}  // namespace pipeline::adapters
