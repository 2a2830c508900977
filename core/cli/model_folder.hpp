// The model folder of another tool in place of a configuration: `pipeline predict models/esm2`.
#pragma once

#include <string>

#include "core/cli/verb.hpp"

namespace pipeline::cli {

// Whether a verb takes `file` for a model folder of another tool, or for a PEFT adapter.
bool is_model_folder(const std::string& file);

// Where FILE is a model folder, its weights are used; where it is an adapter, those of its model, and the
// adapter. The task is the one of --set task.plugin, else "chat" if that takes such models, else the only one
// that does. Results go to runs/NAME-model, by the folder's name, where no --set says otherwise. Throws Error
// where no task or several take it, or FILE is what people put in place of a model's folder.
void take_model_folder(ConfigArgs& args, train::VerbArgs& verb_args);

// Whether the model's config.json describes parts, such as a vision encoder: it is no language model alone.
bool has_parts(const std::string& folder);

}  // namespace pipeline::cli
