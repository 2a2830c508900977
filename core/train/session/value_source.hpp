// What options follow that are not set: the model whose values a run begins with.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/manifest.hpp"
#include "core/config/config.hpp"
#include "core/plugins/plugin.hpp"

namespace pipeline::train {

struct ValueSource {
  std::string folder;                          // of another tool, by init_from; empty: none
  std::string from;                            // what of ours has `options`, for people; empty: nothing
  std::map<std::string, std::string> options;  // with which the values were trained: TOML source, by full key
  std::string base;              // what paths in them are relative to; empty: where this program was started
  bool is_own = false;           // the run's own: it goes on, or its result is used
  bool goes_on = false;          // that its options are what they were is seen to elsewhere
  std::optional<bool> followed;  // has_followed(), where it is known
};

// The source that the checkpoint with these contents is.
ValueSource values_of_checkpoint(const std::string& path, const checkpoint::Contents& contents);
// The run in `folder` (empty: none) goes on where it has a checkpoint; otherwise the values are those of
// `weights`: a run, a checkpoint, or a folder of another tool. Reads no tensors.
ValueSource values_of_run(const std::filesystem::path& folder, const std::string& weights);
// The source for using the result of a run, or a checkpoint.
ValueSource values_of_result(const std::string& weights);

// Whether a run of ours began with values of another tool, itself or through runs before it, so that its
// options may have followed them.
bool has_followed(const ValueSource& source);

// The model's options that a run, `source`, has with another value than `config`.
std::vector<config::ModelOption> options_of_run(const plugins::Plugin& task,
                                                const config::PluginConfig& config,
                                                const ValueSource& source);

// What `source` says of the options of `task`, whose own values `config` has.
std::vector<config::ModelOption> model_options(const plugins::Plugin& task, const pl_config& config,
                                               const ValueSource& source);

}  // namespace pipeline::train
