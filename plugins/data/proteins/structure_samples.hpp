#pragma once

#include <pipeline/context.hpp>

#include <string>
#include <vector>

#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/structures/structure_library.hpp"

namespace pipeline::proteins {

// Chains of the structures in a folder, or whole structures.
class StructureSamples : public Samples {
 public:
  // Parses what is not in the cache, and says what there is and what cannot be used. Throws
  // files::DataError. [main]
  StructureSamples(const std::filesystem::path& root, const ProteinData& options, const Context& context);

  uint64_t size() const override { return entries_.size(); }
  const char* noun() const override { return by_chain_ ? "chain" : "structure"; }
  std::string fingerprint() const override { return library_.fingerprint().hex(); }
  Size size_of(uint64_t i) const override { return entries_[i].size; }
  Sample sample(uint64_t i) const override;
  std::string name(uint64_t i) const override { return entries_[i].name; }
  std::string file(uint64_t i) const override { return entries_[i].file; }
  std::vector<std::string> chain_names(uint64_t i) const override;
  std::vector<uint64_t> keys(uint64_t i) const override { return entries_[i].keys; }
  void each_chain(uint64_t i, const std::function<void(std::string_view)>& visit) const override;
  Words words(uint64_t /*i*/) const override { return {}; }
  std::optional<std::string> label(uint64_t /*i*/) const override { return std::nullopt; }

 private:
  struct Entry {
    std::string name, file;
    size_t structure;
    std::vector<size_t> chains;
    std::vector<uint64_t> keys;
    Size size;
  };
  void list();
  // Visits the chains of entry i.
  template <class Visit>
  void with_chains(uint64_t i, const Visit& visit) const;

  const bool by_chain_;
  structures::StructureLibrary library_;
  std::vector<Entry> entries_;
};

}  // namespace pipeline::proteins
