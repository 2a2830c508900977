#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/checkpoint/manifest.hpp"
#include "core/safetensors/file.hpp"

namespace pipeline::checkpoint {

// A tensor that the caller needs.
struct Wanted {
  std::string parameter;
  std::vector<int64_t> shape;
  bool may_be_missing = false;
  std::string kind = "value";             // or the form of a frozen one: "int8", "nf4"
  std::vector<int64_t> value_shape = {};  // of a "value" that may stand for it; empty: none may
};

// Mismatches that are allowed.
struct Differences {
  std::vector<std::string> missing;  // parameters
  std::vector<std::string> dropped;
};

// A finished checkpoint, read-only. Any process can read any part of it, whatever the number of processes
// that wrote it. Data is memory-mapped and read on access. Immutable and safe for any thread.
class Checkpoint {
 public:
  // Checks the manifest, that every file exists with its size and its tensors, and that the pieces of each
  // tensor cover it. Throws pipeline::Error, PL_ERROR_CORRUPT if the content is at fault.
  static Checkpoint open(const std::string& path);

  const std::string& path() const { return path_; }
  const Contents& contents() const { return manifest_.contents; }
  const std::vector<Tensor>& tensors() const { return manifest_.tensors; }
  const Manifest& manifest() const { return manifest_; }
  const Tensor* find(std::string_view kind, std::string_view parameter) const;  // nullptr when there is none

  // Reads every byte and compares the checksums. Throws pipeline::Error, PL_ERROR_CORRUPT.
  void verify() const;

  // Fills `destination` with request.count elements of tensor (request.kind, .parameter), from request.offset
  // on. Throws if the tensor is missing, or its shape or dtype differs from the request; a bfloat16 tensor is
  // widened for a request of float32.
  void read(const pl_piece& request, void* destination) const;

  // Checks that the parameters' values are exactly `wanted`: one error lists all that are missing,
  // unexpected, mis-shaped or in another form. Returns the allowed differences: what `wanted` allows to be
  // missing and, if `may_drop`, what the checkpoint allows to be left out.
  Differences check(std::span<const Wanted> wanted, bool may_drop = false) const;

 private:
  Checkpoint(std::string path, Manifest manifest);
  void open_files();

  std::string path_;
  Manifest manifest_;
  std::map<std::pair<std::string, std::string>, size_t> index_;  // (kind, parameter) -> tensor
  std::vector<safetensors::File> files_;                         // as in the manifest
};

// Reads the manifest of the checkpoint in folder `path`; checks the presence and size of its files.
Manifest read_manifest(const std::string& path);

// An entry of a folder of checkpoints that is not used.
struct Rejected {
  std::string name;    // of the entry in the folder
  std::string reason;  // ends with what is wrong with it
};

enum class Which { kLast, kBest };

// For `init_from` and --checkpoint: `path` is a checkpoint, a folder of checkpoints, or a run's folder.
// kBest is the last one if no checkpoint has a metric. The returned checkpoint has been verified; entries
// of a folder that were skipped, damaged or not checkpoints, are put into `rejected`.
Checkpoint open_any(const std::string& path, Which which, std::vector<Rejected>* rejected = nullptr);

// The mean of the values in several checkpoints of one model, in float64, rounded once.
class Average {
 public:
  // The newest `count` checkpoints beside `last`, itself and older ones, verified. Throws Error where there
  // are fewer.
  static Average before(Checkpoint last, uint64_t count);

  const std::vector<Checkpoint>& of() const { return of_; }  // newest first
  // Reads the mean as Checkpoint::read() reads a tensor; of bytes, which are frozen, the newest.
  void read(const pl_piece& request, void* destination) const;

 private:
  explicit Average(std::vector<Checkpoint> of) : of_(std::move(of)) {}

  std::vector<Checkpoint> of_;
};

}  // namespace pipeline::checkpoint
