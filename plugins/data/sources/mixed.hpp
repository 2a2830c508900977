#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sources/mixture.hpp"

namespace pipeline::sources {

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
