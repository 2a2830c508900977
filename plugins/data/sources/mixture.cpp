#include "plugins/data/sources/mixture.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/base/hash.hpp"

namespace pipeline::sources {

Mixture::Mixture(const std::vector<uint64_t>& records, const Shares& shares, uint64_t seed) : seed_(seed) {
  const auto all = static_cast<double>(std::accumulate(records.begin(), records.end(), uint64_t{0}));
  const double weights = std::accumulate(shares.weights.begin(), shares.weights.end(), 0.0);
  for (size_t i = 0; i < records.size(); ++i) {
    const double samples = !shares.weights.empty()   ? all * shares.weights[i] / weights
                           : !shares.repeats.empty() ? static_cast<double>(records[i]) * shares.repeats[i]
                                                     : static_cast<double>(records[i]);
    const uint64_t count =
        records[i] == 0 ? 0 : std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(samples)));
    parts_.push_back({size_, count, records[i]});
    size_ += count;
  }
}

std::string Mixture::line(const std::string& name, size_t source) const {
  const Part& part = parts_[source];
  const auto ratio = [](uint64_t a, uint64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  char numbers[160];
  std::snprintf(
      numbers, sizeof numbers,
      ": %" PRIu64 " of %" PRIu64 " samples of an epoch (%.1f%%), its %" PRIu64 " records %.2f times each",
      part.samples, size_, 100 * ratio(part.samples, size_), part.records, ratio(part.samples, part.records));
  return "source     " + name + numbers;
}

size_t Mixture::source_of(uint64_t sample) const {
  const auto after = std::ranges::upper_bound(parts_, sample, {}, &Part::begin);
  return static_cast<size_t>(after - parts_.begin()) - 1;
}

Mixture::Place Mixture::operator()(uint64_t epoch, uint64_t sample) const {
  const size_t source = source_of(sample);
  const Part& part = parts_[source];
  const uint64_t number = sample - part.begin;
  // Whole passes need no order: that of the samples is random.
  if (part.samples % part.records == 0) return {source, number % part.records};
  const uint64_t position = epoch * part.samples + number, pass = position / part.records;
  const Permutation order(part.records, derive_seed(seed_, "mixture", source, pass));
  return {source, order(position % part.records)};
}

}  // namespace pipeline::sources
