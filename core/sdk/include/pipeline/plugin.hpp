// The one function that a plugin exports. Authors use PIPELINE_TASK, PIPELINE_STRATEGY, PIPELINE_BACKEND or
// PIPELINE_OPTIMIZER, which expand to it.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/options.hpp>

#include <string_view>
#include <utility>
#include <vector>

PIPELINE_SDK_BEGIN

// What every plugin object is created from.
template <class ConfigT>
struct Setup {
  Setup(const pl_context* raw_context, const pl_config* raw_config)
      : context(raw_context),
        config(read_config<ConfigT>(raw_config, context.run().purpose)),
        errors(raw_config, "", context.run().purpose) {}
  // For an update rule that a strategy has itself.
  Setup(const Context& of_strategy, ConfigT values)
      : context(of_strategy), config(std::move(values)), errors(nullptr) {}

  Context context;
  ConfigT config;
  ConfigErrors errors;
};

// What every plugin object has: its run, its options, and how to report errors in them.
template <class ConfigT>
class Object {
 public:
  explicit Object(Setup<ConfigT> setup)
      : context_(setup.context), config_(std::move(setup.config)), errors_(std::move(setup.errors)) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  const Context& context() const { return context_; }
  const pl_run_info& run() const { return context_.run(); }
  const ConfigT& config() const { return config_; }

  // Throws `file:line: key = value: problem`.
  [[noreturn]] void config_error(std::string_view key, std::string_view problem) const {
    errors_(key, problem);
  }
  bool is_set(std::string_view key) const { return errors_.is_set(key); }
  const ConfigErrors& errors() const { return errors_; }

 private:
  Context context_;
  ConfigT config_;
  ConfigErrors errors_;
};

// For the slots that make and free an object, a T.
template <class T, class Handle>
pl_error* create_object(Handle** out, const auto*... sent) {
  return guard([&] {
    *out = nullptr;
    *out = reinterpret_cast<Handle*>(new T(typename T::Setup(sent...)));
  });
}
template <class T, class Handle>
void destroy_object(Handle* handle) {
  if (handle == nullptr) return;
  const pl_context* context = reinterpret_cast<T*>(handle)->context().raw();
  guard_void(context, [&] { delete reinterpret_cast<T*>(handle); });
}

// True if class T overrides the virtual `slot` of T::Interface. Without an override, &T::slot has the type
// of a member of the interface; a slot that T hides, overloads or makes private counts as overridden.
#define PIPELINE_OVERRIDES(T, slot) \
  (!requires { requires std::is_same_v<decltype(&T::slot), decltype(&T::Interface::slot)>; })

// A plugin's options as ABI structs.
class Schema {
 public:
  explicit Schema(Options declared) : specs_(std::move(declared.specs_)) {
    for (OptionSpec& spec : specs_) {
      if (spec.flags_ & PL_OPTION_REQUIRED) spec.default_.clear();
      choices_.emplace_back();
      for (const std::string& choice : spec.choices_) choices_.back().push_back(str(choice));
    }
    for (size_t i = 0; i < specs_.size(); ++i) options_.push_back(option(specs_[i], choices_[i]));
  }
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  const std::vector<pl_option>& options() const { return options_; }

 private:
  static pl_option option(const OptionSpec& spec, const std::vector<pl_str>& choices) {
    auto out = sized<pl_option>();
    out.type = spec.type_;
    out.flags = spec.flags_;
    out.choice_count = static_cast<uint32_t>(choices.size());
    out.choices = choices.empty() ? nullptr : choices.data();
    out.key = str(spec.key_);
    out.default_value = str(spec.default_);
    out.unit = str(spec.unit_);
    out.help = str(spec.help_);
    out.minimum = spec.minimum_;
    out.maximum = spec.maximum_;
    return out;
  }

  std::deque<OptionSpec> specs_;
  std::deque<std::vector<pl_str>> choices_;
  std::vector<pl_option> options_;
};

// The schema of config struct T; static, as the ABI requires.
template <class T>
const std::vector<pl_option>& schema_of() {
  static_assert(DescribesOptions<T>,
                "a config struct needs `void describe(pipeline::Options& o)`: see pipeline/options.hpp");
  static const Schema& schema = *new Schema([] {
    T defaults;
    Options collector;
    defaults.describe(collector);
    return collector;
  }());
  return schema.options();
}

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
