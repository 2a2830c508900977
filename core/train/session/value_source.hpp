// What a path names that weights are taken from: a run, a checkpoint, or the model folder of another tool.
// And what options follow that are not set: the model whose values a run begins with.
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

// The option that names the weights of a stage: another stage, or what the user named.
const char* weights_key(const config::Config& config);

// Whether it is a run, a checkpoint of ours or a folder of such.
bool is_ours(const std::string& weights);
// Whether it is the model folder of another tool: one with a config.json.
bool is_foreign(const std::string& weights);
// The best checkpoint in it, the newest where none was evaluated, or `weights` itself.
std::string best_checkpoint(const std::string& weights);
// Throws ConfigError where the folder of another tool that init_from names is not there.
void require_folder(const config::Config& config, const std::string& init_from);

// The checkpoint that `weights` means at the moment, and which one of that name; `weights` itself where it is
// none of ours.
std::string checkpoint_of(const std::string& weights);

// Whether two such texts are of the same weights, wherever they lie now. `base`: what the path in the first
// one is relative to, as config::Origin has it.
bool same_weights(const std::string& then, const std::string& now, const std::string& base);

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
