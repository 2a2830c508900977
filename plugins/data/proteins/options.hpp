// Which proteins the task reads, and which of them it holds out.
#pragma once

#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/data/residues/alphabet.hpp"
#include "records/table.hpp"

namespace pipeline::proteins {

// What a model is to learn of proteins beside masked residues, and where the data has it.

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

struct DataConfig {
  std::string unit = "chain", crop = "contiguous";
  int64_t min_residues = 20, max_residues = 512, max_file_mb = 256;
  double noise = 0, max_unusable = 0.5;
  std::string sequence_column = "sequence", id_column = "id", split_column = "split",
              cluster_column = "cluster", quotes = "auto";

  void describe(Options& o) {
    o("sequence_column", sequence_column, "column of a table of sequences: letters of amino acids");
    o("id_column", id_column, "column of a table: what the sequence is called; may be absent");
    o("split_column", split_column,
      "column for task.split.by = \"column\": train, val (valid, validation, dev) or test; others are left "
      "out");
    o("cluster_column", cluster_column, "column for task.split.by = \"clusters\"");
    o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
    o("unit", unit, "a sample: one chain, or all chains of a structure").choices({"chain", "structure"});
    o("min_residues", min_residues, "samples with fewer known residues are skipped").unit("residues").min(1);
    o("max_residues", max_residues,
      "longer samples are cropped in training, otherwise processed in pieces, or for labels whole")
        .unit("residues")
        .min(16);
    o("crop", crop,
      "what training keeps of a longer sample: consecutive residues, or those nearest to one residue in "
      "space")
        .choices({"contiguous", "spatial"});
    o("noise", noise, "standard deviation of the noise on each coordinate in training")
        .unit("angstrom")
        .min(0);
    o("max_file_mb", max_file_mb, "larger files (unpacked size) are unusable").unit("MB").min(1).may_change();
    o("max_unusable", max_unusable,
      "stop if a larger share of the files, or of the records of sequences, is unusable")
        .min(0)
        .max(1)
        .may_change();
  }
};

struct SplitConfig {
  std::string by = "similarity";
  std::filesystem::path list;
  int64_t folds = 10, fold = 0, exact_up_to = 3000;
  double identity = 0.3, coverage = 0.5;

  void describe(Options& o) {
    o("by", by,
      "what stays in one split: clusters of similar sequences; clusters of your own; equal sequences; or a "
      "column says the split")
        .choices({"similarity", "clusters", "sequence", "column"});
    o("list", list,
      "table of names (task.data.id_column) with their clusters or splits, for what has no such column; "
      "clusters also as MMseqs2 writes them: representative and member, without a header");
    o("folds", folds, "parts to divide the clusters of similar sequences into").min(3);
    o("fold", fold,
      "part held out as the test split; the next one is the validation split, the rest are for training")
        .min(0);
    o("identity", identity, "minimum share of identical residues in two similar sequences").min(0).max(1);
    o("coverage", coverage, "minimum aligned share of the shorter of two similar sequences").min(0).max(1);
    o("exact_up_to", exact_up_to,
      "with more distinct sequences, align only pairs that share seeds: may miss relatives below 40% "
      "identity within a part, and between parts if the log says so")
        .unit("sequences")
        .min(0);
  }
  void validate(const ConfigErrors& errors) const {
    if (fold >= folds) errors("fold", "must be below task.split.folds (" + std::to_string(folds) + ")");
    if (!list.empty() && by != "clusters" && by != "column")
      errors("list",
             "is of use with task.split.by = \"clusters\" or \"column\" alone: set it, or leave this out");
  }
};

struct ProteinData {
  std::filesystem::path pdb_path, sequences, cache_dir, test_path;
  DataConfig data;
  SplitConfig split;
  std::string objective = residues::kMasked;
  LabelConfig label;

  bool has_sequences() const { return !sequences.empty(); }
  // What the training data is, and the option that says so.
  const std::filesystem::path& path() const { return has_sequences() ? sequences : pdb_path; }
  const char* path_key() const { return has_sequences() ? "sequences" : "pdb_path"; }

  void describe_paths(Options& o) {
    o("pdb_path", pdb_path,
      "folder of structures (PDB, mmCIF, also gzipped; searched recursively), or one file");
    o("sequences", sequences,
      "in place of pdb_path, for ESM-2 and ESM C: sequences as FASTA, Stockholm, CSV, TSV, JSON or Parquet: "
      "a file, a pattern or a folder");
    o("test_path", test_path,
      "structures or sequences to use as the test split instead of the held-out part; not used in training")
        .may_change();
    o("cache_dir", cache_dir, "folder for what was read; may be pdb_path; empty: the run's cache folder")
        .may_change();
  }
};

}  // namespace pipeline::proteins
