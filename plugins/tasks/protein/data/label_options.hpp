// What a model is to learn of proteins beside masked residues, and where the data has it.
#pragma once

#include <pipeline/options.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::protein {

struct LabelConfig {
  std::string per = "chain", source = "column", column = "label", missing = "?";
  std::vector<std::string> classes;

  bool is_per_residue() const { return per == "residue"; }
  bool is_from_backbone() const { return source == "secondary_structure"; }

  void describe(Options& o) {
    o("per", per, "what has a label: a chain, or each residue of one")
        .choices({"chain", "residue"})
        .follows();
    o("source", source,
      "where labels are: a column of the table that task.sequences names, or the backbone, of which DSSP's "
      "rules "
      "make H, E and C")
        .choices({"column", "secondary_structure"});
    o("column", column,
      "the column. Of residues: a letter for each (HHEEC), or numbers or words with commas between them");
    o("missing", missing, "what stands for no label; so does an empty field, and of numbers nan");
    o("classes", classes, "of classification: their names, in order; empty: those that the data has, sorted")
        .follows();
  }
};

// task.objective. Masked residues are no label.
inline constexpr const char *kMasked = "masked", *kRegression = "regression",
                            *kClassification = "classification", *kContacts = "contacts";

// Of a pair of residues; kNoPair: nothing is known, or it is too near along the chain to count.
constexpr uint8_t kNoContact = 0, kContact = 1, kNoPair = 2;

}  // namespace pipeline::protein
