#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/base/abi_values.hpp"
#include "core/checkpoint/file_system.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/store.hpp"
#include "core/safetensors/header.hpp"

namespace pipeline::checkpoint {

// One rank's pieces as one safetensors file. Tensors are named `kind/parameter`, with `@offset` if a piece
// is not the whole tensor, so that the checkpoint of a single process is a plain file of full tensors.
class PieceFile {
 public:
  // Visits all pieces and lays out the file. Throws pipeline::Error for a piece that contradicts itself.
  PieceFile(const std::string& name, const PieceSource& pieces);

  bool empty() const { return share_.tensors.empty(); }
  const Manifest& layout() const {
    return share_;
  }  // what it will have; its size and checksum come with write()
  uint64_t bytes() const { return header_.size() + data_bytes_; }

  // Writes `folder/name` and syncs it. Returns the file and its tensors, as a manifest without contents.
  Manifest write(FileSystem& file_system, const std::string& folder);

 private:
  PieceSource pieces_;
  Manifest share_;
  std::string header_;
  uint64_t data_bytes_ = 0;
  std::set<int, std::greater<>> widths_;  // bits per element: by falling width all data is aligned
};

// A rank's pieces of parameters that never change in a run. They are in a file of their own, which a
// checkpoint shares with the one before it: on disk it is there once. Where a file system has no hard links
// it is written each time. Used by one thread at a time.
class Constant {
 public:
  explicit Constant(std::vector<std::string> parameters)
      : parameters_(parameters.begin(), parameters.end()) {}

  bool has(const pl_piece& piece) const { return parameters_.contains(view(piece.parameter)); }
  // Whether the next checkpoint can be written without these pieces: the last one, of this process, has them
  // in a file that can be linked.
  bool is_in_place() const;
  // The run goes on from this checkpoint, so what it has is what there would be to write.
  void continue_from(const Checkpoint& from, const Group& group);
  // Puts the file into `folder`: links the last one, if it is like this one or this one is empty, or writes
  // it. Returns what PieceFile::write() does, and whether it was written.
  std::pair<Manifest, bool> put(PieceFile& file, FileSystem& file_system, const std::string& folder,
                                const std::function<void()>& before_writing);
  // The folder's name from now on.
  void moved_to(const std::string& folder) { folder_ = folder; }

  static std::string file_name(const Group& group);

 private:
  std::set<std::string, std::less<>> parameters_;
  std::string folder_;      // of the last checkpoint; empty: none
  Manifest share_;          // what it has in this file
  bool is_linked_ = false;  // this process put it there, and links work
};

inline std::vector<int64_t> shape_of(const pl_piece& piece) {
  return piece.ndim == 0 ? std::vector<int64_t>()
                         : std::vector<int64_t>(piece.shape, piece.shape + piece.ndim);
}

// Throws pipeline::Error, naming `label`, for a dtype that safetensors does not have.
safetensors::Dtype dtype_of(const pl_piece& piece, std::string_view label);

struct Saved {
  uint64_t step = 0;
  std::string path;
  uint64_t bytes = 0;  // on rank 0, of all ranks' files; elsewhere, of this rank's
  double seconds = 0;
  std::vector<std::string> pruned;  // on rank 0: names of older checkpoints that were removed
  std::string prune_problem;        // why some could not be removed; empty: none failed
};

// Writes a checkpoint into the store, or leaves the store as it was. All ranks of the group call it
// together; those that own no pieces pass an empty source. On failure removes what it wrote and throws
// pipeline::Error, PL_ERROR_NO_SPACE if the disk is full (before writing anything, where the file system
// can tell). A checkpoint of the same step is replaced once the new one is complete.
// constant: this rank's, which is not written where the contents say what is left out; null: all is written.
// Where it is_in_place(), the source need not have its pieces.
Saved write(Store& store, const Contents& contents, const PieceSource& pieces, const Group& group = {},
            Constant* constant = nullptr);

// Writes checkpoints on a thread of its own, one at a time. Call it from one thread. The group's `worst` is
// called on the writing thread, so it must not share a communicator with the training loop.
//
//   if (auto saved = writer.poll()) log(*saved);               // or throws the last one's error
//   writer.start(contents, [snapshot](auto& visit) { ... });   // of a snapshot made with PL_SNAPSHOT_COPY
//   ...
//   writer.finish();
class BackgroundWriter {
 public:
  explicit BackgroundWriter(Store& store, Group group = {}, Constant* constant = nullptr);
  ~BackgroundWriter();  // waits; an outcome not yet polled is lost
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  bool busy() const { return thread_.joinable() && !done_; }
  // From start() until poll() or finish() has told the outcome.
  bool pending() const { return thread_.joinable(); }

  // Reports the outcome of the last checkpoint, once: returns its result or throws its error. nullopt while
  // it is being written.
  std::optional<Saved> poll();
  // Waits, then does what poll() does.
  std::optional<Saved> finish();

  // finish(), and unless that throws, starts the next one. The source is destroyed on the writing thread.
  std::optional<Saved> start(Contents contents, PieceSource pieces);

 private:
  Store& store_;
  Group group_;
  Constant* constant_;  // of the writing thread while that is busy
  std::atomic<bool> done_ = false;
  Saved saved_;                 // until done_: owned by the thread
  std::exception_ptr failure_;  // until done_: owned by the thread
  std::thread thread_;
};

}  // namespace pipeline::checkpoint
