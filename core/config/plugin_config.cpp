#include "core/config/plugin_config.hpp"

#include "core/base/error.hpp"
#include "core/base/str.hpp"

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

pl_str PluginConfig::string(std::string_view key) const {
  get_string(key);  // or throws what is wrong
  return strings_.find(key)->second->views.front();
}

std::span<const pl_str> PluginConfig::string_list(std::string_view key) const {
  get_string_list(key);
  return strings_.find(key)->second->views;
}

namespace {

template <class T>
void hand_out(std::span<const T> values, const T** out, uint64_t* count) {
  *out = values.data();
  *count = values.size();
}

}  // namespace

void fill_config_slots(pl_host& host) {
  using From = const pl_config*;
  host.config_bool = [](From config, pl_str key, uint32_t* out) {
    return guard([&] { *out = config->get_bool(view(key)) ? 1 : 0; });
  };
  host.config_int = [](From config, pl_str key, int64_t* out) {
    return guard([&] { *out = config->get_int(view(key)); });
  };
  host.config_float = [](From config, pl_str key, double* out) {
    return guard([&] { *out = config->get_float(view(key)); });
  };
  host.config_string = [](From config, pl_str key, pl_str* out) {
    return guard([&] { *out = config->string(view(key)); });
  };
  host.config_int_list = [](From config, pl_str key, const int64_t** out, uint64_t* count) {
    return guard([&] { hand_out<int64_t>(config->get_int_list(view(key)), out, count); });
  };
  host.config_float_list = [](From config, pl_str key, const double** out, uint64_t* count) {
    return guard([&] { hand_out<double>(config->get_float_list(view(key)), out, count); });
  };
  host.config_string_list = [](From config, pl_str key, const pl_str** out, uint64_t* count) {
    return guard([&] { hand_out<pl_str>(config->string_list(view(key)), out, count); });
  };
  // This slot cannot fail: a key that the schema does not have is not set.
  host.config_is_set = [](From config, pl_str key) -> uint32_t {
    try {
      return config->is_set(view(key)) ? 1 : 0;
    } catch (const Error&) {
      return 0;
    }
  };
  host.config_error = [](From config, pl_str key, pl_str problem) {
    return guard([&] { throw config->error(view(key), view(problem)); });
  };
}

}  // namespace pipeline::config
