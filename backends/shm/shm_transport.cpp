#include "backends/shm/shm_transport.hpp"

#include <algorithm>

#include "backends/common/signature.hpp"
#include "backends/shm/pieces.hpp"

namespace pipeline::backends::shm {

ShmTransport::ShmTransport(const Context& context, const pl_backend_open_args& args, size_t slot_bytes)
    : rank_(args.rank),
      world_size_(args.world_size),
      rounds_(context, std::string(view(args.group)), rank_, world_size_, slot_bytes),
      mechanism_(concat("shared memory of this host, ",
                        (static_cast<size_t>(world_size_) * kSlots * slot_bytes) >> 10, " KiB")) {}

void ShmTransport::run(const Call& call, uint64_t sequence) {
  const Pieces pieces(call, rank_, world_size_, rounds_.slot_bytes());
  first_round_ = rounds_.round() + 1;
  uint64_t count = 1;  // until all have said how many they need
  for (uint64_t round = 0; round < count; ++round) {
    char* slot = rounds_.begin();
    if (round == 0) announce(call, sequence, pieces.rounds());
    pieces.write(round, slot);
    rounds_.publish();
    rounds_.wait_for_others();
    if (round == 0) count = agree(pieces.rounds());
    pieces.read(round, rounds_);
    rounds_.end();
  }
}

void ShmTransport::announce(const Call& call, uint64_t sequence, uint64_t rounds) {
  for (int32_t r = 0; r < world_size_; ++r)
    rounds_.announcement(rank_, r) = {signature_of(call, sequence, r), rounds};
}

// All ranks must make the same call. Returns the number of its rounds.
uint64_t ShmTransport::agree(uint64_t rounds) {
  for (int32_t r = 0; r < world_size_; ++r) {
    const Announcement& theirs = rounds_.announcement(r, rank_);
    if (r != rank_) {
      if (const auto differs =
              difference(rounds_.announcement(rank_, r).signature, rank_, theirs.signature, r))
        fail(*differs);
    }
    rounds = std::max(rounds, theirs.rounds);
  }
  return rounds;
}

}  // namespace pipeline::backends::shm
