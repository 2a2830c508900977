// The labels of samples: numbers or classes of chains or of their residues, and contacts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/records/label_scale.hpp"
#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::proteins {

// The labels of one sample. Places are residues, from 0; a chain's own label is at the first.
struct SampleLabels {
  std::vector<int64_t> places;                          // ascending
  std::vector<double> numbers;                          // for regression: one for each place
  std::vector<std::string> texts;                       // for regression: the numbers as written
  std::vector<std::string> classes;                     // for classification: one for each place
  std::vector<std::pair<uint32_t, uint32_t>> contacts;  // ascending; places: residues with a backbone
  std::string problem;                                  // why there are none; empty: there are
  std::map<std::string, uint64_t> passed_over;          // words that stand for no label, with how often
};

// Reads labels. [any-thread]
class Labels {
 public:
  // objective: see residues::kMasked; of kMasked nothing has a label.
  Labels(std::string objective, LabelConfig options)
      : objective_(std::move(objective)), options_(std::move(options)) {}

  bool is_wanted() const { return objective_ != residues::kMasked; }
  bool are_numbers() const { return objective_ == residues::kRegression; }
  bool are_contacts() const { return objective_ == residues::kContacts; }
  const LabelConfig& options() const { return options_; }
  // key: everything that reading depends on. kind: what is predicted, and of what. where: its source.
  std::string key() const;
  std::string kind() const { return objective_ + " " + options_.per; }
  std::string where() const { return options_.is_from_backbone() ? options_.source : options_.column; }
  bool is_from_structures() const { return are_contacts() || options_.is_from_backbone(); }
  SampleLabels of(const Samples& samples, uint64_t i) const;

 private:
  SampleLabels from_backbone(const Samples& samples, uint64_t i) const;
  SampleLabels from_text(const std::string& whole, size_t residues) const;
  bool is_word_for_none(std::string_view text) const;

  std::string objective_;
  LabelConfig options_;
};

void add(const SampleLabels& labels, bool is_training, records::LabelCounts& counts);

}  // namespace pipeline::proteins
