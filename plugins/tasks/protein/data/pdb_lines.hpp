#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plugins/tasks/protein/data/pdb_columns.hpp"
#include "plugins/tasks/protein/data/pdb_numbers.hpp"
#include "plugins/tasks/protein/data/residue_name.hpp"

namespace pipeline::protein {

// The lines of a PDB file that matter here, as the stream that gemmi reads: of the first model the atoms of the backbone and the first
// atom of every other residue, no water, with a TER wherever a part of a chain ends (model_parts.hpp). This is most of what makes
// reading fast, and what the rest of a file says cannot fail it. What programs write past the format is put right on the way: names of
// four letters or in lower case, coordinates that are no numbers (made NaN, where gemmi would take zero), residues without a number.
class PdbLines {
 public:
  explicit PdbLines(std::string_view text) : rest_(text) {}

  // What gemmi asks of a stream. gets() throws DataError for an atom's line that is cut off.
  char* gets(char* line, int size);
  int getc() { return -1; }  // gets() never leaves a line half read

  // After the last line.
  uint64_t atoms() const { return atoms_; }                      // of the first model, those left out too
  const std::string& first_atom() const { return first_atom_; }  // the first that is not water's, and its place
  ParentNames take_parents() { return std::move(parents_); }     // from MODRES records
  std::vector<std::string> remarks() const;                      // what is odd

 private:
  bool next_atom();
  bool goes_on();
  bool read_atom(std::string_view line);
  bool note_atom(bool backbone);
  void read_parent(std::string_view line);

  std::string_view rest_;
  uint64_t line_number_ = 0, atoms_ = 0;
  char atom_[pdb::kWidth];             // the line that next_atom() found
  char last_[pdb::kWidth] = {};        // the one handed out before it
  std::string residue_;                // as last read, before anything was put right
  std::unordered_set<uint64_t> seen_;  // hashes of the part's residues and backbone atoms
  std::unordered_set<uint64_t> read_;  // hashes of all residues, as they are in the file
  bool any_last_ = false;
  bool ended_ = false;  // the part that last_ is in has ended
  bool held_ = false;   // atom_ is still to be handed out, after a TER
  PdbNumbers numbers_;
  ParentNames parents_;
  std::string first_atom_;
  bool first_is_water_ = true;

  // For noticing that an end is missing.
  bool chain_is_open_ = false;  // the last atom is an ATOM, and no TER or END has come since
  bool has_model_ = false, has_sequence_ = false;
};

}  // namespace pipeline::protein
