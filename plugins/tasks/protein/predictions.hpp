// What a model says about each residue of a sample, as tables and a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::tasks::protein {

struct Predicted {
  const proteins::Sample& sample;
  std::vector<std::string> chain_names;  // by number of the chain
  std::vector<float> log_p;              // (residues, 20): each with its residue masked
};

// A residue's insertion code; and its number, insertion code and letter as fields of a table.
inline std::string insertion_of(const proteins::Sample& sample, size_t i) {
  return sample.insertion(i) == ' ' ? "" : std::string(1, sample.insertion(i));
}
inline std::string place_of(const proteins::Sample& sample, size_t i) {
  return std::to_string(sample.number(i)) + "," + insertion_of(sample, i) + "," +
         residues::letter_of(sample.codes[i]);
}

// A row per residue: chain, number, insertion code, residue, its probability, the `top` likeliest amino acids
// with theirs, entropy in nats.
std::string residue_table(const Predicted& predicted, int64_t top);

// A row per residue: the log-odds of each amino acid over the one that is there, ln p(other) - ln p(this)
// (masked marginals: Meier et al. 2021). Empty where the residue is unknown.
std::string mutation_table(const Predicted& predicted);
// The sample's rows of a table over all samples, with one row for each substitution.
std::string mutation_rows(const Predicted& predicted, const std::string& name, bool with_header);
std::string mutation_picture(const Predicted& predicted, const std::string& name);

// Over the residues that are known.
struct Summary {
  int64_t residues = 0, known = 0;
  double recovery = 0;  // share whose amino acid is the likeliest
  double perplexity = 0;
  double entropy = 0;  // mean over all residues, in nats
};
Summary summarize(const Predicted& predicted);

}  // namespace pipeline::tasks::protein
