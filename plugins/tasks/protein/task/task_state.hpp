// What checkpoints and exported folders keep of the task besides parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "plugins/data/structures/structure.hpp"
#include "plugins/tasks/protein/task/scores.hpp"

namespace pipeline::protein {

// What a chain is, wherever its file lies and whatever it and its residues are called: a hash of its amino
// acids and coordinates.
uint64_t content_key(std::span<const Residue> chain);
// Of chains together: that of the chain where there is one.
uint64_t content_key(std::span<const uint64_t> chains);

using ContentKeys = std::set<uint64_t>;
bool any_of(std::span<const uint64_t> keys, const ContentKeys& set);

// The chains that weights were trained with. It goes with them from run to run, so that no evaluation takes
// what they may know for something new. All of a training split counts from the first step on.
struct Learnt {
  ContentKeys training, validation;  // validation: what the best checkpoint was chosen by

  void add(const Learnt& other);
};

struct TaskState {
  Frequencies frequencies;  // of the training data
  std::string model;        // ProteinModel::extra_state()
  Learnt learnt;
};

std::string to_text(const TaskState& state);
// Throws an Error for what is no such text.
TaskState state_from(std::string_view text);

// learnt-from.json beside the weights in a folder that was exported: other tools pass it over. read: nothing
// where there is no such file.
void write_learnt(const std::filesystem::path& folder, const Learnt& learnt);
std::optional<Learnt> read_learnt(const std::filesystem::path& folder);

}  // namespace pipeline::protein
