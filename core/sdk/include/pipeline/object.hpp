#pragma once

#include <pipeline/context.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/options.hpp>

#include <string_view>
#include <utility>

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

// True if class T overrides the virtual `slot` of T::Interface. Without an override, &T::slot has the type
// of a member of the interface; a slot that T hides, overloads or makes private counts as overridden.
#define PIPELINE_OVERRIDES(T, slot) \
  (!requires { requires std::is_same_v<decltype(&T::slot), decltype(&T::Interface::slot)>; })

PIPELINE_SDK_END
