// Several sources of records, mixed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::sources {

// How often the records of sources are used. At most one of the two has values: one for each source.
struct Shares {
  std::vector<double> weights;  // an epoch has as many samples as there are records, dealt out by these
  std::vector<double> repeats;  // an epoch has each record so many times
};

// Samples of an epoch, and which record of which source each is: a function of seed, epoch and number, so
// that every rank, and a continued run, sees the same. A source's samples go through it in passes, each in an
// order of its own, that run on from epoch to epoch, so that its records are used equally often: one whose
// samples in an epoch are fewer than its records has other ones in the next. Immutable.
class Mixture {
 public:
  struct Place {
    size_t source;
    uint64_t record;
  };

  Mixture() = default;  // of nothing
  // records: how many each source has.
  Mixture(const std::vector<uint64_t>& records, const Shares& shares, uint64_t seed);

  uint64_t size() const { return size_; }                                      // samples of an epoch
  uint64_t samples_of(size_t source) const { return parts_[source].samples; }  // in an epoch
  // "source     code: 1200 of 4000 samples of an epoch (30.0%), its 600 records 2.00 times each"
  std::string line(const std::string& name, size_t source) const;
  size_t source_of(uint64_t sample) const;                  // in every epoch; sample < size()
  Place operator()(uint64_t epoch, uint64_t sample) const;  // sample < size()

 private:
  struct Part {
    uint64_t begin, samples, records;
  };
  std::vector<Part> parts_;
  uint64_t size_ = 0, seed_ = 0;
};

}  // namespace pipeline::sources
