// Predicted labels as tables and pictures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/sample.hpp"
#include "plugins/models/protein/label_head.hpp"

namespace pipeline::tasks::protein {

using pipeline::protein::LabelForm;

// A sample of one chain, and what a model says of it: LabelHead::told().
struct LabelledSample {
  const proteins::Sample& sample;
  std::string name, chain;
  proteins::SampleLabels labels;  // what is right, where the data has it
  std::span<const float> predicted;
};

// The table of predictions: residues, known, and of chains the prediction, the probability of each class and
// what is right; of residues their classes as letters, where all names are letters; of contacts how many are
// expected at least six residues apart.
std::vector<std::string> label_columns(const LabelForm& form);
std::vector<std::string> label_row(const LabelForm& form, const LabelledSample& one);

// Rows of a table of all samples: of residues their labels; of pairs those with the highest probability, five
// for each residue.
inline constexpr const char *kLabelFile = "labels.csv", *kContactFile = "contacts.csv";
std::string label_rows(const LabelForm& form, const LabelledSample& one, bool with_header);

// Probabilities above the diagonal, and what is right below it.
std::string contact_picture(const LabelledSample& one);

}  // namespace pipeline::tasks::protein
