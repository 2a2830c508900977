#include "core/config/plugin_config.hpp"

#include "core/config/option.hpp"

namespace pipeline::config {

PluginConfig::PluginConfig(std::string prefix, std::string file, std::vector<Setting> settings)
    : Settings(std::move(prefix), std::move(file)) {
  for (Setting& setting : settings) insert(std::move(setting));
  for (const std::string& key : keys()) {
    const Setting& found = setting(key);
    if (!found.value) continue;
    auto strings = std::make_unique<Strings>();
    if (const auto* text = std::get_if<std::string>(&*found.value)) strings->storage = {*text};
    if (const auto* list = std::get_if<std::vector<std::string>>(&*found.value)) strings->storage = *list;
    const bool is_path = found.option.type == PL_OPTION_PATH || found.option.type == PL_OPTION_PATH_LIST;
    for (std::string& text : strings->storage) {
      if (is_path) text = absolute_path(text);
      strings->views.push_back({text.data(), text.size()});
    }
    strings_.emplace(key, std::move(strings));
  }
}

const PluginConfig::Strings& PluginConfig::strings(std::string_view key, bool is_list) const {
  const Setting& found = setting(key);
  const uint32_t type = found.option.type;
  const bool fits = is_list ? type == PL_OPTION_STRING_LIST || type == PL_OPTION_PATH_LIST
                            : type == PL_OPTION_STRING || type == PL_OPTION_PATH;
  if (!fits)
    throw Error("option " + prefix() + std::string(key) + " is of type " + type_name(type) +
                ", and was asked for as " + type_name(is_list ? PL_OPTION_STRING_LIST : PL_OPTION_STRING));
  if (!found.value) throw error(key, "is needed here and has no default: give it a value");
  return *strings_.find(key)->second;
}

pl_str PluginConfig::string(std::string_view key) const { return strings(key, false).views.front(); }

std::span<const pl_str> PluginConfig::string_list(std::string_view key) const {
  return strings(key, true).views;
}

}  // namespace pipeline::config
