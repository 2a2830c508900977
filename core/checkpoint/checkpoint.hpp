#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/checkpoint/contents.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/safetensors/file.hpp"

namespace pipeline::checkpoint {

// A tensor that the reader's caller needs.
struct Wanted {
  std::string parameter;
  std::vector<int64_t> shape;
  bool may_be_missing = false;
};

// What was found not to match, and may not.
struct Differences {
  std::vector<std::string> missing;  // parameters
  std::vector<std::string> dropped;
};

// A finished checkpoint, read-only: any process reads any part of it, whatever the number of processes that
// wrote it. Data is memory-mapped and comes in as it is touched. Const and safe for any thread.
class Checkpoint {
 public:
  // Checks the manifest, that every file is there with its size and its tensors, and that the pieces of each
  // tensor cover it. Throws pipeline::Error, PL_ERROR_CORRUPT where the content is at fault.
  static Checkpoint open(const std::string& path);

  const std::string& path() const { return path_; }
  const Contents& contents() const { return manifest_.contents; }
  const std::vector<Tensor>& tensors() const { return manifest_.tensors; }
  const Tensor* find(std::string_view kind, std::string_view parameter) const;  // nullptr when there is none

  // Reads every byte and compares the checksums. Throws pipeline::Error, PL_ERROR_CORRUPT.
  void verify() const;

  // Fills `destination` with request.count elements from request.offset on of tensor (request.kind,
  // .parameter). One that is not there, or has another shape or dtype than the request, is an error.
  void read(const pl_piece& request, void* destination) const;

  // The tensors of `kind` must be exactly `wanted`: one error lists all that are missing, unexpected or
  // mis-shaped. Returns what may differ: what `wanted` says may be missing, and, where `may_drop`, what the
  // checkpoint says may be left out.
  Differences check(std::string_view kind, std::span<const Wanted> wanted, bool may_drop = false) const;

 private:
  Checkpoint(std::string path, Manifest manifest);
  void open_files();

  std::string path_;
  Manifest manifest_;
  std::map<std::pair<std::string, std::string>, size_t> index_;  // (kind, parameter) -> tensor
  std::vector<safetensors::File> files_;                         // as in the manifest
};

// The manifest of the checkpoint in folder `path`, with the presence and size of its files checked.
Manifest read_manifest(const std::string& path);

// An entry of a folder of checkpoints that is not used.
struct Rejected {
  std::string name;    // of the entry in the folder
  std::string reason;  // ends in what is wrong with it
};

enum class Which { kLast, kBest };

// For `init_from` and --checkpoint: `path` is a checkpoint, a folder of checkpoints, or a run's folder. kBest
// is the last one where no checkpoint has a metric. What is returned has been verified; what was passed over
// in a folder, damaged or not a checkpoint, is put into `rejected`.
Checkpoint open_any(const std::string& path, Which which, std::vector<Rejected>* rejected = nullptr);

}  // namespace pipeline::checkpoint
