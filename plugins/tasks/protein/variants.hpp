// Mutations that somebody wants scored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/data/files/error.hpp"
#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/records/table.hpp"

namespace pipeline::tasks::protein {

// A residue of a sample that another amino acid takes the place of.
struct Substitution {
  size_t place = 0;  // in the sample
  uint8_t from = 0, to = 0;
};

// A row of the user's table.
struct Variant {
  uint64_t row = 0;                // in the table, from 0
  std::string id, mutation;        // as they are written there
  std::string chain;               // empty: whichever has such a residue
  std::optional<double> measured;  // what an experiment says
  std::string measured_text = {};  // `measured`, as it is written there
};

// The number that a field of a table is; nothing: it is none, as "NA" and the like.
std::optional<double> number_in(std::string_view text);

// "A23V", or "p.Ala23Val" as HGVS has it: alanine, residue 23, valine; "A23bV" where the residue's number is
// 23b; several with ":", ",", ";", "/", "+" or a space between, which are one variant; "WT", or "p.=", is the
// sequence itself. offset: added to the numbers. Throws files::DataError that says what is wrong.
std::vector<Substitution> substitutions_of(const Variant& variant, const proteins::Sample& sample,
                                           std::span<const std::string> chain_names, int32_t offset = 0);

// The one number that, added to those of all variants that can be read, has the amino acids there that they
// say; nothing: there is none, or several are.
std::optional<int32_t> fitting_offset(std::span<const Variant* const> variants,
                                      const proteins::Sample& sample,
                                      std::span<const std::string> chain_names);

struct VariantColumns {
  std::string id, mutation = "mutation", chain = "chain", measured;  // measured: empty: there is none
};

// The user's table, by protein.
class Variants {
 public:
  // Throws files::DataError.
  Variants(const std::filesystem::path& path, const VariantColumns& columns, records::Quotes quotes,
           const std::string& cache_folder, const files::Hooks& hooks);

  // Variants of the protein of this name, or accession (UniProt's sp|ACCESSION|NAME), in the table's order;
  // for a chain also those of the structure that name the chain. For a table without names: all.
  std::vector<const Variant*> of(std::string_view name, std::string_view chain = {}) const;
  bool has_names() const { return has_names_; }
  const std::vector<Variant>& all() const { return all_; }
  // Values of the measured column that are no numbers, and the first of them; "NA" and the like are none,
  // too.
  uint64_t not_numbers() const { return not_numbers_; }
  const std::string& first_not_number() const { return first_not_number_; }

 private:
  void add(records::Row&& row, const std::string& where);

  std::vector<Variant> all_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> by_name_;  // rows, by a hash of it
  bool has_names_ = false;
  uint64_t not_numbers_ = 0;
  std::string first_not_number_;
};

}  // namespace pipeline::tasks::protein
