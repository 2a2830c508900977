#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "core/checkpoint/writer.hpp"

namespace pipeline::checkpoint {

// Writes checkpoints on a thread of its own, one at a time. Used from one thread. The group's `all_ok` is
// called on the writing thread, so it must not share a communicator with the training loop.
//
//   if (auto saved = writer.poll()) log(*saved);                  // throws what the last one failed with
//   writer.start(contents, [snapshot](auto& visit) { ... });      // a snapshot made with PL_SNAPSHOT_COPY
//   ...
//   writer.finish();
class BackgroundWriter {
 public:
  explicit BackgroundWriter(Store& store, Group group = {});
  ~BackgroundWriter();  // waits; an error that nobody asked for is lost
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  bool busy() const;

  // What became of the last one, told once: its result, or its error, thrown. Nothing while it is being
  // written.
  std::optional<Saved> poll();

  // Waits for the one before, throws its error if poll() has not told it yet (nothing is started then), then
  // starts. The source is destroyed on the writing thread when the checkpoint is complete.
  void start(Contents contents, PieceSource pieces);

  // Waits, then as poll().
  std::optional<Saved> finish();

 private:
  void run();

  Store& store_;
  Group group_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool pending_ = false;  // handed over and not finished
  Contents contents_;
  PieceSource pieces_;
  std::optional<Saved> saved_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace pipeline::checkpoint
