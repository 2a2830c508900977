#include "core/train/session/find_plugin.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace pipeline::train {

const plugins::Plugin& find_plugin(const config::Config& config, plugins::Registry& registry,
                                   plugins::Kind kind, const std::string& name, const char* key) {
  try {
    return registry.find(kind, name);
  } catch (const Error& error) {
    if (error.code() != PL_ERROR_CONFIG) throw;
    std::string_view problem = error.what();
    // The configuration says key and value itself, unless the value was auto.
    const std::string said = fmt::format("{} = \"{}\": ", key, name);
    if (problem.starts_with(said) && config.get_string(key) == name) problem.remove_prefix(said.size());
    throw config.error(key, problem);
  }
}

}  // namespace pipeline::train
