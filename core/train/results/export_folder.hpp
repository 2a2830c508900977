// What the core does to a model folder that a task has written: the type of its weights, shards, a card.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/core_options.hpp"
#include "core/observe/log.hpp"

namespace pipeline::train {

// What a model's card says of where it comes from. Empty: not known.
struct ModelCard {
  std::string name, task;  // "summarization 1.0.0"
  std::string weights;     // "runs/summarization/checkpoints/step-00001200, moving average"
  std::vector<std::string> bases;
  std::string data, data_fingerprint;
  std::filesystem::path run_dir;  // whose evaluations of these weights and config.toml it shows
};

// Rounds and cuts the safetensors files of `folder` as the options say, and says so; its config.json follows.
// Throws Error where there are none and the options want a type.
void convert_export(const std::filesystem::path& folder, const config::ExportOptions& options,
                    observe::Log& log);

// Writes README.md with the metadata that model hubs read, unless the task has written one.
void write_model_card(const std::filesystem::path& folder, const ModelCard& card);

}  // namespace pipeline::train
