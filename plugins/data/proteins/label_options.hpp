// What a model is to learn of proteins beside masked residues, and where the data has it.
#pragma once

#include <pipeline/options.hpp>

#include <string>
#include <vector>

namespace pipeline::proteins {

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
      "rules make H, E and C")
        .choices({"column", "secondary_structure"});
    o("column", column,
      "the column. Of residues: a letter for each (HHEEC), numbers or words with commas between them, or a "
      "list of these");
    o("missing", missing,
      "what stands for no label; so do an empty field, pandas' words for what is missing (nan, None, <NA>, "
      "...) and, of classes, -100");
    o("classes", classes,
      "of classification: their names, in order, also such as stand for no label otherwise; empty: those "
      "that the data has, sorted")
        .follows();
  }
};

}  // namespace pipeline::proteins
