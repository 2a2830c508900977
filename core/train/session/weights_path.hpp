// What a path names that weights are taken from: a run, a checkpoint, or the model folder of another tool.
#pragma once

#include <string>

#include "core/config/config.hpp"

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

}  // namespace pipeline::train
