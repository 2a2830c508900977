// What checkpoints and exported folders keep of the task besides parameters.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/tasks/protein/task/frequencies.hpp"
#include "plugins/tasks/protein/task/learnt.hpp"

namespace pipeline::protein {

struct TaskState {
  Frequencies frequencies;       // of the training data
  std::string model;             // ProteinModel::extra_state()
  std::optional<Learnt> learnt;  // nothing: nobody knows
};

std::string to_text(const TaskState& state);
// Throws an Error for what is no such text.
TaskState state_from(std::string_view text);

// learnt-from.json beside the weights in a folder that was exported: other tools pass it over. read: nothing
// where there is no such file.
void write_learnt(const std::filesystem::path& folder, const Learnt& learnt);
std::optional<Learnt> read_learnt(const std::filesystem::path& folder);

}  // namespace pipeline::protein
