#include "plugins/data/clusters/prefilter.hpp"

#include <algorithm>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::clusters {

namespace {

constexpr size_t kPlaces[] = {0, 1, 3, 5};
constexpr size_t kSpan = 6;
constexpr uint32_t kSeeds = residues::kAminoAcidCount * residues::kAminoAcidCount *
                            residues::kAminoAcidCount * residues::kAminoAcidCount;
constexpr uint64_t kMaxShift = 8;  // between two hits: the gaps that may lie between them

// Calls visit(seed, position) for the seeds of a sequence; those with an unknown residue are none.
template <typename Visit>
void each_seed(const Letters& sequence, Visit visit) {
  for (size_t position = 0; position + kSpan <= sequence.size(); ++position) {
    uint32_t seed = 0;
    bool known = true;
    for (const size_t place : kPlaces) {
      const uint8_t letter = sequence[position + place];
      known = known && letter < residues::kAminoAcidCount;
      seed = seed * residues::kAminoAcidCount + letter;
    }
    if (known) visit(seed, static_cast<uint32_t>(position));
  }
}

}  // namespace

Prefilter::Prefilter(const std::vector<Letters>& sequences) : sequences_(sequences), begin_(kSeeds + 1) {
  for (const Letters& sequence : sequences)
    each_seed(sequence, [&](uint32_t seed, uint32_t) { ++begin_[seed + 1]; });
  for (uint32_t seed = 0; seed < kSeeds; ++seed) begin_[seed + 1] += begin_[seed];
  hits_.resize(begin_[kSeeds]);
  std::vector<uint64_t> next(begin_.begin(), begin_.end() - 1);
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    each_seed(sequences[i], [&](uint32_t seed, uint32_t position) { hits_[next[seed]++] = {i, position}; });
  }
}

std::vector<uint32_t> Prefilter::candidates(uint32_t query) const {
  // A hit as one number: the sequence, then the diagonal, which is made positive.
  thread_local std::vector<uint64_t> hits;
  const uint64_t offset = sequences_[query].size();
  hits.clear();
  each_seed(sequences_[query], [&](uint32_t seed, uint32_t position) {
    const uint64_t begin = begin_[seed], end = std::min(begin_[seed + 1], begin + kMaxListed);
    for (uint64_t i = begin; i < end && hits_[i].sequence < query; ++i)
      hits.push_back(uint64_t{hits_[i].sequence} << 32 | (offset + hits_[i].position - position));
  });
  std::sort(hits.begin(), hits.end());
  std::vector<uint32_t> candidates;
  for (size_t i = 1; i < hits.size(); ++i) {
    // Hits of two sequences are further apart than any shift: diagonals end below 2^20.
    if (hits[i] - hits[i - 1] > kMaxShift) continue;
    const auto sequence = static_cast<uint32_t>(hits[i] >> 32);
    if (candidates.empty() || candidates.back() != sequence) candidates.push_back(sequence);
  }
  return candidates;
}

}  // namespace pipeline::clusters
