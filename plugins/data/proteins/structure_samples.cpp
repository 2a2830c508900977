#include "plugins/data/proteins/samples.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <numeric>

#include "plugins/data/files/unique_names.hpp"
#include "plugins/data/proteins/comparison.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/residues/residue.hpp"
#include "plugins/data/structures/structure_library.hpp"

namespace pipeline::proteins {
namespace {

structures::StructureLibrary open_library(const std::filesystem::path& root, const ProteinData& options,
                                          const Context& context) {
  structures::StructureLibrary library = structures::StructureLibrary::open(
      {.root = root.string(),
       .cache_dir = cache_folder(options, context),
       .limits = {.max_file_bytes = static_cast<uint64_t>(options.data.max_file_mb) << 20,
                  .option = "task.data.max_file_mb"},
       .max_unusable_share = options.data.max_unusable,
       .max_unusable_option = "task.data.max_unusable"},
      data_hooks("reading structures", context));
  const structures::LibraryCounts& counts = library.counts();
  std::string text =
      concat("structures ", counts.structures, " in ", root.string(), ", ", counts.residues, " residues");
  if (counts.duplicates > 0)
    text += concat("; ", counts.duplicates,
                   counts.duplicates == 1 ? " file is a copy of another" : " files are copies of others");
  if (counts.unusable > 0)
    text += concat("; ", counts.unusable, " of ", counts.files, " files cannot be used:");
  context.info(text);
  files::for_each_line(library.report(), [&](const std::string& line) { context.warn(line); });
  return library;
}

// The name of a chain in a structure of this name; chains may have none.
std::string join(std::string_view structure, const char* by, std::string_view chain) {
  return concat(structure, chain.empty() ? "" : by, chain);
}

// Chains, or whole structures.
class StructureSamples : public Samples {
 public:
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
  void with_chains(uint64_t i, const Visit& visit) const {
    const structures::StructureView structure = library_.structure(entries_[i].structure);
    for (const size_t chain : entries_[i].chains) visit(structure.chains[chain]);
  }

  const bool by_chain_;
  structures::StructureLibrary library_;
  std::vector<Entry> entries_;
};

StructureSamples::StructureSamples(const std::filesystem::path& root, const ProteinData& options,
                                   const Context& context)
    : by_chain_(options.data.unit == "chain"), library_(open_library(root, options, context)) {
  list();
}

void StructureSamples::list() {
  std::vector<std::string> names, others;  // others: 1abc:A, where 1abc_A is the name of a file
  for (size_t s = 0; s < library_.size(); ++s) {
    const structures::StructureView structure =
        library_.structure(s);  // once: each time all of it is verified
    const auto add = [&](std::vector<size_t> chains) {
      Entry entry{
          .name = {}, .file = {}, .structure = s, .chains = std::move(chains), .keys = {}, .size = {}};
      for (const size_t chain : entry.chains) {
        const auto& residues = structure.chains[chain].residues;
        entry.size.residues += static_cast<uint32_t>(residues.size());
        entry.size.known +=
            static_cast<uint32_t>(std::ranges::count_if(residues, [](const residues::Residue& residue) {
              return residue.amino_acid < residues::kAminoAcidCount;
            }));
        entry.keys.push_back(content_key(residues));
      }
      entry.size.chains = static_cast<uint32_t>(entry.chains.size());
      const std::string_view chain =
          by_chain_ ? structure.chains[entry.chains.front()].name : std::string_view();
      names.push_back(join(structure.name, "_", chain));
      others.push_back(join(structure.name, ":", chain));
      entries_.push_back(std::move(entry));
    };
    std::vector<size_t> chains(structure.chains.size());
    std::iota(chains.begin(), chains.end(), size_t{0});
    if (!by_chain_) {
      add(chains);
    } else {
      for (const size_t chain : chains) add({chain});
    }
  }
  names = files::tell_apart(names, others);
  const std::vector<std::string> files = files::file_names(names);
  for (size_t i = 0; i < names.size(); ++i) entries_[i].name = names[i], entries_[i].file = files[i];
}

Sample StructureSamples::sample(uint64_t i) const {
  std::vector<std::span<const residues::Residue>> chains;
  with_chains(i, [&](const structures::ChainView& chain) { chains.push_back(chain.residues); });
  return make_sample(chains);
}

std::vector<std::string> StructureSamples::chain_names(uint64_t i) const {
  std::vector<std::string> names;
  with_chains(i, [&](const structures::ChainView& chain) { names.emplace_back(chain.name); });
  return names;
}

void StructureSamples::each_chain(uint64_t i, const std::function<void(std::string_view)>& visit) const {
  std::string letters;
  with_chains(i, [&](const structures::ChainView& chain) {
    letters.clear();
    for (const residues::Residue& residue : chain.residues)
      letters += residues::letter_of(residue.amino_acid);
    visit(letters);
  });
}

}  // namespace

std::unique_ptr<const Samples> open_structures(const std::filesystem::path& root, const ProteinData& options,
                                               const Context& context) {
  return std::make_unique<StructureSamples>(root, options, context);
}

}  // namespace pipeline::proteins
