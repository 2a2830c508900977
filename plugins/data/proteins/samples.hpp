// The samples of a source, in an order of their own: chains or whole structures of a folder, or sequences.
#pragma once

#include <pipeline/context.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/sample.hpp"

namespace pipeline::proteins {

// Immutable. All [any-thread]; i < size() everywhere. What reads files throws files::DataError.
class Samples {
 public:
  virtual ~Samples() = default;

  virtual uint64_t size() const = 0;
  virtual const char* noun() const = 0;  // what one sample is called in the log
  // Equal where all names and contents are.
  virtual std::string fingerprint() const = 0;

  struct Size {
    uint32_t residues = 0, known = 0, chains = 0;
  };
  virtual Size size_of(uint64_t i) const = 0;
  virtual Sample sample(uint64_t i) const = 0;
  virtual std::string name(uint64_t i) const = 0;  // the structure's, and the chain's where that is a sample
  virtual std::string file(uint64_t i) const = 0;  // what names of its files begin with; no other sample's do
  virtual std::string tensor(uint64_t i) const { return file(i); }  // what its tensor alone is called
  virtual std::vector<std::string> chain_names(uint64_t i) const = 0;
  virtual std::vector<uint64_t> keys(uint64_t i) const = 0;  // content_key() of each chain
  // The chains' one-letter codes. Valid during the call.
  virtual void each_chain(uint64_t i, const std::function<void(std::string_view letters)>& visit) const = 0;

  // What the source itself says of a sample, in a table's columns.
  struct Words {
    std::optional<std::string> split, cluster;
  };
  virtual Words words(uint64_t i) const = 0;
  virtual std::optional<std::string> label(uint64_t i) const = 0;  // in task.label.column
};

// The sequences of a file, a pattern or a folder; and the structures in a folder. They read what is not in
// the cache, and say what there is and what cannot be used. Throw files::DataError. [main]
std::unique_ptr<const Samples> open_sequences(const std::filesystem::path& named, const ProteinData& options,
                                              const Context& context);
std::unique_ptr<const Samples> open_structures(const std::filesystem::path& root, const ProteinData& options,
                                               const Context& context);

// Whether `named` is sequences, and not structures: by its name, that of a folder by its files.
bool are_sequences(const std::filesystem::path& named);
// Why there is nothing at `named`, which may be a pattern of sequences. Empty: there is, or nothing is named.
std::string problem_of(const std::filesystem::path& named);

}  // namespace pipeline::proteins
