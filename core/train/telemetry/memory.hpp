// What training takes of memory on one rank, on its device or, on the CPU, in its process: what the strategy
// says of itself, and what can only be measured.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/train/session/session.hpp"

namespace pipeline::train {

// Bytes that a strategy accounts for, by what they are for.
struct StrategyMemory {
  uint64_t parameters = 0;  // weights, and master weights where the parameters are narrower
  uint64_t gradients = 0;
  uint64_t optimizer = 0;
  uint64_t buffers = 0;  // for communication, and whatever else it names

  uint64_t lasting() const { return parameters + optimizer; }  // always there
  uint64_t in_a_step() const { return gradients + buffers; }   // while a step is computed
};

StrategyMemory memory_of(const plugins::Strategy& strategy);

// Bytes of this rank's part of a checkpoint, which a background writer works on a copy of.
uint64_t checkpoint_bytes(const plugins::Strategy& strategy);

// Whether a run of so many steps (0: not known) copies its state for a background writer while it trains.
bool copies_checkpoints(const config::Config& config, uint64_t total_steps);

// Bytes in use now, and at the peak so far. On a CUDA device by all processes, and what the allocator keeps.
uint64_t memory_in_use(pl_device device);
uint64_t peak_memory(pl_device device);

// What this process and its device's allocator keep for later goes back: what comes finds large pieces, and
// what is in use can be told.
void give_back_unused(Session& session);

// Predicts a rank's peak from the micro-batches of a few steps: by what these took beyond what the strategy
// accounts for, its activations are known. Used from one thread; the session is bound.
class MemoryForecast {
 public:
  // To be made before the first micro-batch. `copies_checkpoints`: they are written in the background.
  // `largest`: the largest micro-batch of the run, in terms of the largest one of these steps.
  MemoryForecast(Session& session, bool copies_checkpoints, double largest = 1);
  // To be called after each micro-batch.
  void micro_batch() { peak_ = std::max(peak_, peak_memory(device_)); }

  // Process, libraries and data, or on a device its context: all that is in use between steps but for the
  // strategy's.
  uint64_t base() const;
  uint64_t activations() const;  // of the measured steps
  uint64_t peak() const;         // of the run

 private:
  pl_device device_;
  StrategyMemory strategy_;
  uint64_t checkpoint_;
  double largest_;
  uint64_t before_, earlier_peak_, peak_;
};

}  // namespace pipeline::train
