#include "plugins/data/clusters/sequence_set.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <unordered_map>

#include "plugins/data/files/error.hpp"
#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::clusters {
namespace {

std::string_view text_of(const Letters& letters) {
  return {reinterpret_cast<const char*>(letters.data()), letters.size()};
}

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

void check_options(const ClusterOptions& options) {
  const auto share = [](const char* name, double value) {
    if (!(value >= 0 && value <= 1)) {
      throw files::DataError(std::string("similarity of sequences: ") + name + " is " +
                             std::to_string(value) + ", must be from 0 to 1");
    }
  };
  share("identity", options.identity);
  share("coverage", options.coverage);
  if (!(options.evalue > 0)) {
    throw files::DataError("similarity of sequences: evalue is " + std::to_string(options.evalue) +
                           ", must be above 0");
  }
}

SequenceSet::SequenceSet(std::span<const std::string_view> sequences) : number_of(sequences.size()) {
  std::unordered_map<std::string, uint32_t> seen;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].size() > kMaxAlignedLength) {
      throw files::DataError("sequence " + std::to_string(i) + " has " + std::to_string(sequences[i].size()) +
                             " residues, at most " + std::to_string(kMaxAlignedLength) +
                             " can be compared: leave it out");
    }
    Letters letters = encode_letters(sequences[i]);
    const auto [place, is_new] =
        seen.emplace(std::string(letters.begin(), letters.end()), static_cast<uint32_t>(distinct.size()));
    number_of[i] = place->second;
    if (is_new) distinct.push_back(std::move(letters));
  }
}

std::vector<uint32_t> SequenceSet::by_length() const {
  std::vector<uint32_t> order(distinct.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return distinct[a].size() < distinct[b].size(); });
  return order;
}

std::vector<std::optional<uint32_t>> find_containing(const std::vector<Letters>& sequences,
                                                     const std::vector<bool>& is_short) {
  // Looked up by their text, one length after the other: the short lengths are few, the sequences may be
  // many.
  std::map<size_t, std::unordered_multimap<std::string_view, uint32_t>> by_length;
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    if (is_short[i] && !sequences[i].empty())
      by_length[sequences[i].size()].emplace(text_of(sequences[i]), i);
  }
  std::vector<std::optional<uint32_t>> containing(sequences.size());
  for (auto& [length, wanted] : by_length) {
    for (uint32_t i = 0; i < sequences.size() && !wanted.empty(); ++i) {
      const std::string_view text = text_of(sequences[i]);
      for (size_t at = 0; text.size() > length && at + length <= text.size(); ++at) {
        const auto [first, last] = wanted.equal_range(text.substr(at, length));
        for (auto found = first; found != last; ++found) containing[found->second] = i;
        wanted.erase(first, last);
      }
    }
  }
  return containing;
}

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
