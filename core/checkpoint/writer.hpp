#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/checkpoint/contents.hpp"
#include "core/checkpoint/store.hpp"

namespace pipeline::checkpoint {

struct Saved {
  uint64_t step = 0;
  std::string path;
  uint64_t bytes = 0;  // rank 0: of all ranks' files; elsewhere of this rank's
  double seconds = 0;
  std::vector<std::string> pruned;  // names of older checkpoints that were removed; rank 0
  std::string prune_problem;        // why some could not be removed; empty: all is well
};

// Writes a checkpoint into the store, or leaves the store as it was. All ranks of the group call it together;
// those that own no pieces pass an empty source. Throws pipeline::Error, PL_ERROR_NO_SPACE when the disk is
// full (seen before anything is written, where the file system can tell), after removing what it wrote. A
// checkpoint of the same step is replaced once the new one is complete.
Saved write(Store& store, const Contents& contents, const PieceSource& pieces, const Group& group = {});

// Writes checkpoints on a thread of its own, one at a time. Used from one thread. The group's `worst` is
// called on the writing thread, so it must not share a communicator with the training loop.
//
//   if (auto saved = writer.poll()) log(*saved);               // or throws what the last one failed with
//   writer.start(contents, [snapshot](auto& visit) { ... });   // of a snapshot made with PL_SNAPSHOT_COPY
//   ...
//   writer.finish();
class BackgroundWriter {
 public:
  explicit BackgroundWriter(Store& store, Group group = {});
  ~BackgroundWriter();  // waits; an outcome that nobody asked for is lost
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  bool busy() const { return thread_.joinable() && !done_; }

  // What became of the last one, told once: its result, or its error, thrown. Nothing while it is being
  // written.
  std::optional<Saved> poll();
  // Waits, then the same.
  std::optional<Saved> finish();

  // finish(), and unless that throws, starts the next one. The source is destroyed on the writing thread.
  std::optional<Saved> start(Contents contents, PieceSource pieces);

 private:
  Store& store_;
  Group group_;
  std::atomic<bool> done_ = false;
  Saved saved_;                 // until done_: the thread's
  std::exception_ptr failure_;  // until done_: the thread's
  std::thread thread_;
};

}  // namespace pipeline::checkpoint
