#include "adapters/lora_options.hpp"

namespace pipeline::adapters {

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

}  // namespace pipeline::adapters
