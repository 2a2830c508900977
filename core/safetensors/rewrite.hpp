// Safetensors files written again: in another type, in several files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/safetensors/header.hpp"

namespace pipeline::safetensors {

// What became of the numbers of a file. Of tensors that are not floating-point nothing is counted.
struct Rewritten {
  uint64_t values = 0;
  uint64_t rounded = 0;  // of them: they have changed
  double largest_change = 0;
  uint64_t bytes = 0;  // of all data
  size_t shards = 1;
};

// Writes the floating-point tensors of `file` in `dtype` (F32, BF16 or F16; nullopt: as they are), each
// rounded to the nearest value, ties to even (F64 to F32 first); and `folder/NAME.safetensors`, where its
// data are more than `shard_bytes`, as NAME-00001-of-00003.safetensors and so on with
// NAME.safetensors.index.json. A tensor is never cut, and a larger one has a shard of its own. The memory
// needed does not grow with the file. Where nothing changes the file stays; otherwise it is removed last.
// Throws SafetensorsError, also for a finite value that F16 cannot have, of 65520 or more.
Rewritten rewrite(const std::filesystem::path& file, std::optional<Dtype> dtype, uint64_t shard_bytes);

}  // namespace pipeline::safetensors
