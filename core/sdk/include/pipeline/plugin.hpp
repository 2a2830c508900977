// The one function that a plugin exports. Authors use PIPELINE_TASK, PIPELINE_STRATEGY, PIPELINE_BACKEND or
// PIPELINE_OPTIMIZER, which expand to it.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/schema.hpp>

#include <string_view>

PIPELINE_SDK_BEGIN

// Names the library that the plugin links and that must be the same in the whole process. A header that
// wraps such a library installs its own function (pipeline/torch/runtime.hpp does).
inline std::string_view (*runtime_tag)() = nullptr;

struct PluginName {
  std::string_view name;
  std::string_view version;
  std::string_view summary;
};

// Table: TaskTable, StrategyTable, BackendTable or OptimizerTable of the plugin's class. The class may have
// two static functions, which go into the plugin's own table: `const void* query(std::string_view id)` for
// extensions, and `void shutdown()`, the last call of all.
template <class Table>
const pl_plugin* make_plugin(const pl_host* sent, pl_error** error, const PluginName& naming) noexcept {
  using Class = typename Table::Class;
  static pl_plugin plugin = sized<pl_plugin>();
  plugin.abi_major = PL_ABI_MAJOR;
  plugin.abi_minor = PL_ABI_MINOR;
  plugin.kind = Table::kKind;
  plugin.name = str(naming.name);
  plugin.version = str(naming.version);
  plugin.summary = str(naming.summary);
  // Nothing else is reliable in a host of another major version. It refuses the plugin when it reads ours.
  if (sent->abi_major != PL_ABI_MAJOR) return &plugin;

  globals().host = receive(sent);
  globals().plugin_name = naming.name;
  *error = guard([&] {
    if (!PL_HAS(pl_host, sent, group_open)) {  // the last field of version 1.0
      fail_with(PL_ERROR_UNSUPPORTED, "the host's table has ", sent->struct_size,
                " bytes, expected at least ", offsetof(pl_host, group_open) + sizeof(void*),
                ": use another host");
    }
    const std::vector<pl_option>& options = schema_of<typename Class::Config>();
    plugin.options = options.data();
    plugin.option_count = options.size();
    plugin.api = Table::api();
    if (runtime_tag != nullptr) plugin.runtime = str(runtime_tag());
    if constexpr (
        requires { Class::query(std::string_view()); } || requires { Table::query(std::string_view()); }) {
      plugin.query = [](pl_str id) -> const void* {
        if constexpr (requires { Table::query(std::string_view()); })
          if (const void* table = Table::query(view(id)); table != nullptr) return table;
        if constexpr (requires { Class::query(std::string_view()); }) return Class::query(view(id));
        return nullptr;
      };
    }
    if constexpr (requires { Class::shutdown(); }) {
      plugin.shutdown = [] { guard_void(nullptr, [] { Class::shutdown(); }); };
    }
  });
  return *error == nullptr ? &plugin : nullptr;
}

PIPELINE_SDK_END

#define PIPELINE_ENTRY(Table, plugin_name, plugin_version, plugin_summary)                             \
  extern "C" PL_EXPORT const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {       \
    return ::pipeline::make_plugin<Table>(host, error, {plugin_name, plugin_version, plugin_summary}); \
  }
