#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/checkpoint/contents.hpp"

namespace pipeline::checkpoint {

inline constexpr uint64_t kFormatVersion = 1;
inline constexpr char kManifestName[] = "manifest.json";

// A run of elements of a tensor, as one tensor of one safetensors file.
struct Extent {
  uint64_t offset;
  uint64_t count;
  size_t file;       // index into Manifest::files
  std::string name;  // in that file
};

struct Tensor {
  std::string kind;       // "value", "exp_avg", ...
  std::string parameter;  // empty: of the optimizer as a whole
  std::string dtype;      // safetensors' name: "F32"
  std::vector<int64_t> shape;
  std::vector<Extent> extents;  // by offset
};

struct StoredFile {
  std::string name;
  uint64_t bytes;
  uint32_t crc32c;
};

// `manifest.json`, the last file to be written: a folder without a valid one is no checkpoint.
struct Manifest {
  Contents contents;
  int world_size = 1;  // of the run that wrote it; for people
  std::vector<StoredFile> files;
  std::vector<Tensor> tensors;
};

// The text carries a checksum of itself. `file` names it in errors. Parsing throws pipeline::Error,
// PL_ERROR_CORRUPT, for damage, a newer format version, or pieces that leave a gap or overlap.
std::string format_manifest(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& file);

// One rank's share, that rank 0 puts together; same text form.
std::string format_share(const StoredFile& file, const std::vector<Tensor>& tensors);
void merge_share(Manifest& manifest, std::string_view text, const std::string& file);

uint64_t element_count(const std::vector<int64_t>& shape);
std::string tensor_label(std::string_view kind, std::string_view parameter);  // "value/wte.weight"; "step"

}  // namespace pipeline::checkpoint
