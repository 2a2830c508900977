// The labels of samples: numbers or classes of chains or of their residues, and contacts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::proteins {

// Contacts are judged, and learnt, of residues that are so many positions apart or more: nearer ones follow
// from the chain alone (CASP's short, medium and long range together).
constexpr int32_t kLeastApart = 6;

// The label that torch's cross entropy passes over.
constexpr double kIgnoreIndex = -100;

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

// What a model learns of labels, found in its training data: it goes with the weights.
struct LabelScale {
  std::vector<std::string> classes;  // the model's outputs by number
  double mean = 0, deviation = 1;    // of numbers: they are learnt as (number - mean) / deviation
  std::string usual;                 // the most frequent class
  std::string kind, where;           // of the Labels: a head is of use for its own kind alone
  uint64_t count = 0;                // of training labels that this was found in; 0: nothing is known of them

  bool operator==(const LabelScale&) const = default;
  // The number of the class of this name; nothing where there is none.
  std::optional<size_t> number_of(const std::string& name) const;
};

// Adds up labels of training samples, and the classes of all samples.
class LabelCounts {
 public:
  static constexpr size_t kMostClasses = 1000;  // beyond these one more is enough

  void add(const SampleLabels& labels, bool is_training);
  // classes: the user's own; empty: those that were added.
  LabelScale scale(const std::vector<std::string>& classes) const;
  const std::map<std::string, uint64_t>& classes() const { return classes_; }  // with how often in training
  const std::map<std::string, uint64_t>& passed_over() const { return passed_over_; }
  uint64_t ignore_indices() const { return ignore_indices_; }  // numbers that are torch's word for none

 private:
  uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // Welford 1962
  std::map<std::string, uint64_t> classes_, passed_over_;
  uint64_t ignore_indices_ = 0;
};

}  // namespace pipeline::proteins
