#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/contents.hpp"
#include "core/checkpoint/manifest.hpp"

namespace pipeline::checkpoint {

// A tensor that the reader's caller wants.
struct Wanted {
  std::string parameter;
  std::vector<int64_t> shape;
};

// A finished checkpoint, read-only: any process reads any part of it, whatever the number of processes that
// wrote it. Data is memory-mapped and comes in as it is touched. Const and safe for any thread.
class Checkpoint {
 public:
  // Checks the manifest, that every file is there with its size, and that the pieces of each tensor cover it.
  // Throws pipeline::Error, PL_ERROR_CORRUPT where the content is at fault.
  static Checkpoint open(const std::string& path);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& path() const { return path_; }
  const Contents& contents() const { return manifest_.contents; }
  const std::vector<Tensor>& tensors() const {
    return manifest_.tensors;
  }  // by kind, then as they were written
  const Tensor* find(std::string_view kind, std::string_view parameter) const;  // nullptr when there is none

  // Reads every byte and compares the checksums. Throws pipeline::Error, PL_ERROR_CORRUPT.
  void verify() const;

  // Fills `destination` with request.count elements from request.offset of the tensor (request.kind,
  // .parameter). A request with another shape or dtype than the tensor's, or for one that is not there, is an
  // error.
  void read(const pl_piece& request, void* destination) const;

  // The tensors of `kind` must be exactly `wanted`: one error lists all that are missing, unexpected or
  // mis-shaped.
  void check(std::string_view kind, std::span<const Wanted> wanted) const;

 private:
  struct Files;
  Checkpoint(std::string path, Manifest manifest);

  std::string path_;
  Manifest manifest_;
  std::map<std::pair<std::string, std::string>, size_t, std::less<>> index_;  // (kind, parameter) -> tensor
  std::unique_ptr<Files> files_;
};

enum class Which { kLast, kBest };

// For `init_from` and --checkpoint: `path` is a checkpoint, a folder of checkpoints, or a run's folder. kBest
// falls back to the last one where no checkpoint has a metric. The checkpoint has been verified.
Checkpoint open_any(const std::string& path, Which which, bool higher_is_better = false);

}  // namespace pipeline::checkpoint
