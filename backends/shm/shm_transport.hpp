// The collectives in shared memory. A rank copies what others need into its slot, and they add it up right
// from there, each for its own part and in the order of the ranks: every rank gets the same bits, and the
// same ones in every run.
#pragma once

#include <string>
#include <vector>

#include "backends/common/transport.hpp"
#include "backends/shm/rounds.hpp"

namespace pipeline::backends::shm {

class ShmTransport : public Transport {
 public:
  // Blocks until all ranks are there.
  ShmTransport(const Context& context, const pl_backend_open_args& args, size_t slot_bytes);

  void run(const Call& call, uint64_t sequence) override;
  void interrupt() noexcept override { rounds_.interrupt(); }
  std::vector<int32_t> absent() const override { return rounds_.behind(first_round_); }
  void leave(const std::string& why) noexcept override { rounds_.end_group(why); }
  const std::string& library() const override { return library_; }
  const std::string& mechanism() const override { return mechanism_; }

 private:
  void announce(const Call& call, uint64_t sequence, uint64_t rounds);
  uint64_t agree(uint64_t rounds);

  const int32_t rank_;
  const int32_t world_size_;
  Rounds rounds_;
  uint64_t first_round_ = 0;  // of the call under way
  std::string library_ = "shm 1.0";
  std::string mechanism_;
};

}  // namespace pipeline::backends::shm
