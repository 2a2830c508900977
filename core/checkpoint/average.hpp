#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"

namespace pipeline::checkpoint {

// The mean of the values in several checkpoints of one model, in float64, rounded once.
class Average {
 public:
  // The newest `count` checkpoints beside `last`, itself and older ones, verified. Throws Error where there
  // are fewer.
  static Average before(Checkpoint last, uint64_t count);

  const std::vector<Checkpoint>& of() const { return of_; }  // newest first
  // Reads the mean as Checkpoint::read() reads a tensor. REQUIRES: a request for float32.
  void read(const pl_piece& request, void* destination) const;

 private:
  explicit Average(std::vector<Checkpoint> of) : of_(std::move(of)) {}

  std::vector<Checkpoint> of_;
};

}  // namespace pipeline::checkpoint
