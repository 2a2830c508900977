// Predicted labels as tables and pictures.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstdint>
#include <memory>
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
  uint64_t id;
  std::string name, file, chain;  // file: what names of its files begin with; empty: it gets no picture
  proteins::SampleLabels labels;  // what is right, where the data has it
  std::span<const float> predicted;
};

// What is written of a prediction of labels, by what they are of.
class LabelFiles {
 public:
  virtual ~LabelFiles() = default;

  // Columns of the table of predictions, which has a row for each sample.
  virtual std::vector<std::string> columns() const { return {"residues", "known"}; }
  virtual std::vector<std::string> row(const LabelledSample& one) const;
  // The sample's rows in a table of all samples, and its picture.
  virtual void write(const LabelledSample& /*one*/, const PredictionSink& /*sink*/) const {}
};

// For chains the prediction, the probability of each class and what is right, all in the table of
// predictions. For residues a table with their labels, "labels.csv", and in the table of predictions their
// classes as letters, where all names are letters. For contacts a table of the pairs with the highest
// probability, five for each residue, "contacts.csv", a picture with probabilities above the diagonal and
// what is right below it, and in the table of predictions how many are expected at least six residues apart.
std::unique_ptr<LabelFiles> label_files_of(const LabelForm& form);

}  // namespace pipeline::tasks::protein
