// Several sources of records, mixed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
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

// The samples of a split: stores of records, one for each source, and their mixture. Store: size(), and
// fingerprint() as text. Immutable; as safe for concurrent use as a Store.
template <class Store>
class Mixed {
 public:
  Mixed() = default;  // holds nothing
  Mixed(std::vector<Store> stores, std::vector<std::string> names, const Shares& shares, uint64_t seed)
      : stores_(std::move(stores)), names_(std::move(names)) {
    std::vector<uint64_t> records;
    for (const Store& store : stores_) records.push_back(store.size());
    mixture_ = Mixture(records, shares, seed);
    for (size_t i = 0; i < stores_.size(); ++i)
      fingerprint_ +=
          (i == 0 ? "" : " ") + stores_[i].fingerprint() +
          (mixture_.samples_of(i) == records[i] ? "" : ":" + std::to_string(mixture_.samples_of(i)));
  }

  uint64_t size() const { return mixture_.size(); }  // samples of an epoch
  uint64_t records() const {
    uint64_t count = 0;
    for (const Store& store : stores_) count += store.size();
    return count;
  }
  // Calls get(store, record) for a sample, whose source is the same in every epoch.
  template <class Get>
  decltype(auto) with(uint64_t epoch, uint64_t sample, Get&& get) const {
    const Mixture::Place place = mixture_(epoch, sample);
    return get(stores_[place.source], place.record);
  }
  // Which record of which of stores() a sample is.
  Mixture::Place place(uint64_t epoch, uint64_t sample) const { return mixture_(epoch, sample); }
  // The source of each sample, in every epoch; nothing where there is one source alone.
  std::vector<size_t> sources_of(std::span<const uint64_t> samples) const {
    std::vector<size_t> sources;
    if (stores_.size() > 1)
      for (const uint64_t sample : samples) sources.push_back(mixture_.source_of(sample));
    return sources;
  }
  // For the log: how often each of several sources is used.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    if (stores_.size() < 2) return lines;
    for (size_t i = 0; i < stores_.size(); ++i) lines.push_back(mixture_.line(names_[i], i));
    return lines;
  }
  const std::vector<Store>& stores() const { return stores_; }
  const std::vector<std::string>& names() const { return names_; }  // of the sources
  // Equal where all records are, and are used equally often.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  std::vector<Store> stores_;
  std::vector<std::string> names_;
  Mixture mixture_;
  std::string fingerprint_;
};

}  // namespace pipeline::sources
