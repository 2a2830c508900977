#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/abi/pipeline.h"

namespace pipeline::checkpoint {

// How good the weights are: a figure from the evaluation after this very step. A non-finite one is kept but
// is never the best.
struct Metric {
  std::string name;  // figures of other names cannot be compared
  double value = 0;
  bool higher_is_better = false;
};

// What a user changed (run --change) after `step` updates. Values are TOML source; empty: none.
struct Change {
  uint64_t step = 0;
  std::string key, before, now;
  bool operator==(const Change&) const = default;
};

struct StoredFile {
  std::string name;
  uint64_t bytes;
  uint32_t crc32c;
};

// Frozen parameters that a checkpoint does not have, since their values are those of a model's folder.
struct LeftOut {
  std::vector<std::string> parameters;
  std::string folder;  // when the run began
  std::vector<StoredFile> files;
};

// What a checkpoint holds besides its tensors. The JSON texts are objects that only the core understands.
struct Contents {
  uint64_t step = 0;  // optimizer steps done; names the folder
  std::string train_state_json = "{}";
  std::string config_toml;  // the resolved config
  std::string identity_json = "{}";
  std::optional<Metric> metric;
  std::vector<std::string> droppable;  // parameters that a later stage may leave out
  std::vector<Change> changes;         // of the run so far, in order
  LeftOut left_out;
};

// A PieceSource calls the visitor once per piece, always in the same order. The source is called twice,
// from any thread; whatever it captures (the strategy's snapshot) lives until it is destroyed.
using PieceVisitor = std::function<void(const pl_piece& piece)>;
using PieceSource = std::function<void(const PieceVisitor& visit)>;

// The processes that write one checkpoint together. `worst` takes this rank's error code (0: no error) and
// returns the worst of all ranks (0: no error anywhere); it is also the barrier, and throws if a rank is
// lost. One process needs none.
struct Group {
  int rank = 0;
  int world_size = 1;
  std::function<uint32_t(uint32_t code)> worst;
};

inline constexpr uint64_t kFormatVersion = 1;
inline constexpr char kManifestName[] = "manifest.json";

// A run of elements of a tensor, stored as one tensor of one safetensors file.
struct Extent {
  uint64_t offset;
  uint64_t count;
  size_t file;       // index into Manifest::files
  std::string name;  // in that file
  bool operator==(const Extent&) const = default;
};

struct Tensor {
  std::string kind;       // "value", "exp_avg", ...
  std::string parameter;  // empty: the optimizer as a whole
  std::string dtype;      // safetensors' name: "F32"
  std::vector<int64_t> shape;
  std::vector<Extent> extents;  // by offset
  bool operator==(const Tensor&) const = default;
};

// `manifest.json`, the last file to be written: a folder without a valid one is not a checkpoint.
struct Manifest {
  Contents contents;
  int world_size = 1;  // of the run that wrote it; for people
  std::vector<StoredFile> files;
  std::vector<Tensor> tensors;

  // What file `name` has of it, without contents; without a file where there is none of that name.
  Manifest of_file(std::string_view name) const;
};

// The text carries its own checksum. `path` names the file in errors. Both throw pipeline::Error; parsing
// throws PL_ERROR_CORRUPT for damage and for pieces that leave a gap or overlap, PL_ERROR_UNSUPPORTED for a
// newer version.
std::string format_manifest(const Manifest& manifest, const std::string& path);
Manifest parse_manifest(std::string_view text, const std::string& path);

// What was changed, as a manifest lists it. parse_changes() throws as parse_manifest() does.
std::string format_changes(const std::vector<Change>& changes);
std::vector<Change> parse_changes(std::string_view text, const std::string& path);

// Adds what another rank wrote: its files and, tensor by tensor, its extents.
void merge(Manifest& into, const Manifest& share, const std::string& path);

// Throws pipeline::Error, PL_ERROR_CORRUPT, if the extents of a tensor leave a gap or overlap.
void check_coverage(const Manifest& manifest, const std::string& path);

[[noreturn]] void corrupt(const std::string& message);  // throws pipeline::Error, PL_ERROR_CORRUPT
uint64_t element_count(const std::vector<int64_t>& shape);
std::string tensor_label(std::string_view kind, std::string_view parameter);  // "value/wte.weight"; "step"

// A checksum as written in a manifest: eight lower-case hexadecimal digits.
inline std::string hex(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

inline std::optional<uint32_t> from_hex(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace pipeline::checkpoint
