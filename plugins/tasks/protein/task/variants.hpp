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
#include "plugins/data/text_pairs/table.hpp"
#include "plugins/tasks/protein/data/sample.hpp"

namespace pipeline::protein {

// A residue of a sample that another amino acid takes the place of.
struct Substitution {
  size_t place = 0;  // in the sample
  uint8_t from = 0, to = 0;
};

// A row of the user's table.
struct Variant {
  std::string mutation;            // as it is written there
  std::string chain;               // empty: whichever has such a residue
  std::optional<double> measured;  // what an experiment says
};

// "A23V": alanine, residue 23, valine; "A23bV" where the residue's number is 23b; several with ":", "," ,
// ";",
// "/", "+" or a space between, which are one variant. Throws files::DataError that says what is wrong.
std::vector<Substitution> substitutions_of(const Variant& variant, const Sample& sample,
                                           std::span<const std::string> chain_names);

struct VariantColumns {
  std::string id, mutation = "mutation", chain = "chain", measured;  // measured: empty: there is none
};

// The user's table, by protein.
class Variants {
 public:
  // Throws files::DataError.
  Variants(const std::filesystem::path& path, const VariantColumns& columns, text_pairs::Quotes quotes,
           const std::string& cache_folder, const files::Hooks& hooks);

  // Of the protein of this name, or of that accession (UniProt's sp|ACCESSION|NAME), in the table's order. Of
  // a table without names: all.
  std::span<const Variant> of(std::string_view name) const;
  bool has_names() const { return has_names_; }
  uint64_t size() const { return size_; }
  // Of its proteins those that are none of `names`, and how many rows they have.
  uint64_t rows_of_others(std::span<const std::string> names, std::vector<std::string>& others) const;

 private:
  struct Protein {
    std::string name;
    std::vector<Variant> variants;
  };
  std::unordered_map<uint64_t, Protein> proteins_;  // by a hash of the name
  bool has_names_ = false;
  uint64_t size_ = 0;
};

}  // namespace pipeline::protein
