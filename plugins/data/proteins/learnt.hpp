// What checkpoints and exported folders keep of the task besides parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/residues/residue.hpp"

namespace pipeline::proteins {

// What a chain is, wherever its file lies and whatever it and its residues are called: a hash of its amino
// acids and coordinates. For a sequence, which has none, the hash of a chain whose coordinates are zero.
uint64_t content_key(std::span<const residues::Residue> chain);
uint64_t content_key(std::span<const uint8_t> codes);
// The key of several chains together; of a single one, its own.
uint64_t content_key(std::span<const uint64_t> chains);

// Keys of samples or chains: all up to kMost of them, else the smallest, which are a fair sample, as keys are
// hashes.
class ContentKeys {
 public:
  static constexpr size_t kMost = size_t{1} << 18;

  ContentKeys() = default;
  // Takes those of `keys` up to `bound`.
  explicit ContentKeys(std::vector<uint64_t> keys, uint64_t bound = UINT64_MAX) : bound_(bound) {
    add(std::move(keys));
  }

  void add(std::vector<uint64_t> keys);  // many at once
  void add(const ContentKeys& other);
  bool has_any(std::span<const uint64_t> keys) const;
  // Whether a key above this was there is not known.
  uint64_t bound() const { return bound_; }
  const std::vector<uint64_t>& keys() const { return keys_; }  // sorted

 private:
  std::vector<uint64_t> keys_;
  uint64_t bound_ = UINT64_MAX;
};

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
  std::optional<records::LabelScale> labels = std::nullopt;  // of a model that predicts them
};

std::string to_text(const TaskState& state);
// Throws an Error for what is no such text.
TaskState state_from(std::string_view text);

// learnt-from.json beside the weights in a folder that was exported: other tools pass it over. read: nothing
// where there is no such file.
void write_learnt(const std::filesystem::path& folder, const Learnt& learnt);
std::optional<Learnt> read_learnt(const std::filesystem::path& folder);

}  // namespace pipeline::proteins
