#pragma once

#include <pipeline/context.hpp>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/sequences/sequence_store.hpp"

namespace pipeline::proteins {

// The sequences of a file, a pattern or a folder: chains whose residues have no coordinates and are numbered
// from 1. Memory does not grow with them.
class SequenceSamples : public Samples {
 public:
  // Reads what is not in the cache, and says what there is and what cannot be used. Throws
  // files::DataError. [main]
  SequenceSamples(const std::filesystem::path& named, const ProteinData& options, const Context& context);

  uint64_t size() const override { return store_.size(); }
  const char* noun() const override { return "sequence"; }
  std::string fingerprint() const override { return store_.content().hex(); }
  Size size_of(uint64_t i) const override;
  Sample sample(uint64_t i) const override;
  std::string name(uint64_t i) const override { return std::string(store_[i].name()); }
  std::string file(uint64_t i) const override;
  std::string tensor(uint64_t i) const override;
  std::vector<std::string> chain_names(uint64_t /*i*/) const override { return {""}; }
  std::vector<uint64_t> keys(uint64_t i) const override;
  void each_chain(uint64_t i, const std::function<void(std::string_view)>& visit) const override;
  Words words(uint64_t i) const override;
  std::optional<std::string> label(uint64_t i) const override;

 private:
  bool has_twins(const std::string& file) const;

  sequences::SequenceStore store_;
  mutable std::once_flag looked_for_twins_;
  mutable std::vector<uint64_t>
      twins_;  // sorted hashes of file()s that several would have; found when first needed
};

// Whether `named` is sequences, and not structures: by its name, that of a folder by its files.
bool are_sequences(const std::filesystem::path& named);
// Why there is nothing at `named`, which may be a pattern of sequences. Empty: there is, or nothing is named.
std::string problem_of(const std::filesystem::path& named);

}  // namespace pipeline::proteins
