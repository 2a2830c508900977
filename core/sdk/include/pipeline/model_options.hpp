// Options that follow the model which a run's values come from, where the user does not set them. A task
// marks them, `o("n_layer", n_layer, "layers").of_model()`, and its Config says what a folder of another tool
// has:
//
//   static void read_model(const Config& config, const std::filesystem::path& init_from,
//                          const pipeline::ModelOptions& say) {
//     const auto file = read(init_from / "config.json");
//     say("n_layer", file.layers, init_from / "config.json");
//   }
//
// With options of checkpoints the host does it alone.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/options.hpp>

#include <filesystem>
#include <string>
#include <string_view>

PIPELINE_SDK_BEGIN

// Passed to Config::read_model.
class ModelOptions {
 public:
  ModelOptions(const pl_config* config, const pl_model_options_sink& sink) : config_(config), sink_(sink) {}

  // `key` is `value` by the file `from`.
  template <OptionValue T>
  void operator()(std::string_view key, const T& value, const std::filesystem::path& from) const {
    std::string toml;
    if constexpr (std::integral<T> && !std::same_as<T, bool>)
      toml = to_toml(static_cast<int64_t>(value));
    else if constexpr (std::floating_point<T>)
      toml = to_toml(static_cast<double>(value));
    else
      toml = to_toml(value);
    check(sink_.value(sink_.user, str(key), str(toml), str(from.native())));
  }
  // What is wrong with an option beside the folder; all are told together.
  void problem(std::string_view key, std::string_view text) const {
    check(sink_.problem(sink_.user, str(key), str(text)));
  }
  bool is_set(std::string_view key) const { return host().config_is_set(config_, str(key)) != 0; }

 private:
  const pl_config* config_;
  const pl_model_options_sink& sink_;
};

template <class Config>
concept ReadsModel = requires(const Config& config, const ModelOptions& say) {
  Config::read_model(config, std::filesystem::path(), say);
};

// The slot pl_task_api.model_options.
template <ReadsModel Config>
pl_error* read_model_options(const pl_host*, const pl_config* config, pl_str init_from,
                             const pl_model_options_sink* sent) {
  return guard([&] {
    Config values;
    Options reader(config);
    values.describe(reader);
    const pl_model_options_sink sink = receive(sent);
    Config::read_model(values, std::filesystem::path(view(init_from)), ModelOptions(config, sink));
  });
}

PIPELINE_SDK_END
