#include "core/config/settings.hpp"

#include <cstdlib>
#include <filesystem>

#include "core/base/abi_values.hpp"
#include "core/base/program.hpp"

namespace pipeline::config {

std::string absolute_path(const std::string& path, const std::string& base) {
  if (path.empty()) return path;
  std::filesystem::path full = path;
  if (path.starts_with("~/")) {
    const char* home = std::getenv("HOME");
    if (!home || !*home)
      throw ConfigError(path + ": ~ is the home folder, and HOME is not set: write the whole path");
    full = std::filesystem::path(home) / path.substr(2);
  }
  return from_start(base / full).lexically_normal().string();
}

void Settings::insert(Setting setting) {
  std::string key(view(setting.option.key));
  keys_.push_back(key);
  settings_.insert_or_assign(std::move(key), std::move(setting));
}

void Settings::replace(Setting setting) {
  std::string key(view(setting.option.key));
  settings_.insert_or_assign(std::move(key), std::move(setting));
}

const Setting& Settings::setting(std::string_view key) const {
  const auto found = settings_.find(key);
  if (found == settings_.end())
    throw Error("option " + prefix_ + std::string(key) + " was asked for, which the schema does not have");
  return found->second;
}

template <class T>
const T* Settings::find(std::string_view key, uint32_t type) const {
  const Setting& found = setting(key);
  const bool path_as_text = (type == PL_OPTION_STRING && found.option.type == PL_OPTION_PATH) ||
                            (type == PL_OPTION_STRING_LIST && found.option.type == PL_OPTION_PATH_LIST);
  if (found.option.type != type && !path_as_text)
    throw Error("option " + prefix_ + std::string(key) + " is of type " + type_name(found.option.type) +
                ", and was asked for as " + type_name(type));
  return found.value ? std::get_if<T>(&*found.value) : nullptr;
}

template <class T>
const T& Settings::get(std::string_view key, uint32_t type) const {
  const T* value = find<T>(key, type);
  if (!value) throw error(key, "is needed here and has no default: give it a value");
  return *value;
}

bool Settings::get_bool(std::string_view key) const { return get<bool>(key, PL_OPTION_BOOL); }
int64_t Settings::get_int(std::string_view key) const { return get<int64_t>(key, PL_OPTION_INT); }
double Settings::get_float(std::string_view key) const { return get<double>(key, PL_OPTION_FLOAT); }
const std::string& Settings::get_string(std::string_view key) const {
  return get<std::string>(key, PL_OPTION_STRING);
}

const std::vector<int64_t>& Settings::get_int_list(std::string_view key) const {
  return get<std::vector<int64_t>>(key, PL_OPTION_INT_LIST);
}

const std::vector<double>& Settings::get_float_list(std::string_view key) const {
  return get<std::vector<double>>(key, PL_OPTION_FLOAT_LIST);
}

const std::vector<std::string>& Settings::get_string_list(std::string_view key) const {
  return get<std::vector<std::string>>(key, PL_OPTION_STRING_LIST);
}

std::vector<std::string> Settings::get_path_list(std::string_view key) const {
  std::vector<std::string> paths;
  for (const std::string& path : get<std::vector<std::string>>(key, PL_OPTION_PATH_LIST))
    paths.push_back(absolute_path(path, origin(key).base));
  return paths;
}

namespace {

template <class T>
std::optional<T> copy(const T* value) {
  return value ? std::optional<T>(*value) : std::nullopt;
}

template <class T>
void hand_out(std::span<const T> values, const T** out, uint64_t* count) {
  *out = values.data();
  *count = values.size();
}

}  // namespace

std::optional<int64_t> Settings::find_int(std::string_view key) const {
  return copy(find<int64_t>(key, PL_OPTION_INT));
}
std::optional<double> Settings::find_float(std::string_view key) const {
  return copy(find<double>(key, PL_OPTION_FLOAT));
}

std::optional<std::string> Settings::find_string(std::string_view key) const {
  return copy(find<std::string>(key, PL_OPTION_STRING));
}

std::optional<std::string> Settings::find_path(std::string_view key) const {
  const std::string* path = find<std::string>(key, PL_OPTION_PATH);
  return path ? std::optional(absolute_path(*path, origin(key).base)) : std::nullopt;
}

bool Settings::is_auto(std::string_view key) const {
  const Setting& found = setting(key);
  return found.option.type == PL_OPTION_INT && found.value &&
         std::holds_alternative<std::string>(*found.value);
}

bool Settings::is_set(std::string_view key) const {
  const Origin::Kind kind = setting(key).origin.kind;
  return kind != Origin::Kind::kDefault && kind != Origin::Kind::kModel;
}

bool Settings::has_value(std::string_view key) const { return setting(key).value.has_value(); }

const Origin& Settings::origin(std::string_view key) const { return setting(key).origin; }

std::string Settings::show(std::string_view key) const {
  const Setting& found = setting(key);
  return found.value ? to_toml(*found.value) : "";
}

ConfigError Settings::error(std::string_view key, std::string_view problem) const {
  const Setting& found = setting(key);
  Origin origin = found.origin;
  std::string shown = show(key);
  if (shown == "\"\"" && origin.kind == Origin::Kind::kDefault) shown.clear();  // it is not given
  if (origin.kind == Origin::Kind::kDefault) origin.file = file_;
  return ConfigError(format_problem(origin, prefix_ + std::string(key), shorten(shown, 80), problem));
}

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
      if (is_path) text = absolute_path(text, found.origin.base);
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
