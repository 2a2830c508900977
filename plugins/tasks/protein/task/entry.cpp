#include "plugins/tasks/protein/task/entry.hpp"

#include <pipeline/text.hpp>

#include <algorithm>
#include <numeric>

#include "plugins/tasks/protein/task/content_key.hpp"
#include "plugins/tasks/protein/task/names.hpp"

namespace pipeline::protein {
namespace {

Entry entry_of(const StructureLibrary& library, size_t structure, std::vector<size_t> chains) {
  Entry entry{.name = {}, .file = {}, .library = &library, .structure = structure, .chains = std::move(chains), .keys = {}};
  const StructureView view = library.structure(structure);
  for (const size_t chain : entry.chains) {
    const auto& residues = view.chains[chain].residues;
    entry.residues += static_cast<int64_t>(residues.size());
    entry.known += std::count_if(residues.begin(), residues.end(), [](const Residue& r) { return r.amino_acid < kAminoAcidCount; });
    entry.keys.push_back(content_key(residues));
  }
  entry.key = content_key(entry.keys);
  return entry;
}

// Of a chain in a structure that is called so; chains may have no name.
std::string join(std::string_view structure, const char* by, std::string_view chain) {
  return concat(structure, chain.empty() ? "" : by, chain);
}

void name_all(std::vector<Entry>& entries, bool by_chain) {
  std::vector<std::string> names, others;
  for (const Entry& entry : entries) {
    const StructureView view = entry.library->structure(entry.structure);
    const std::string_view chain = by_chain ? view.chains[entry.chains.front()].name : std::string_view();
    names.push_back(join(view.name, "_", chain));
    others.push_back(join(view.name, ":", chain));  // 1abc:A, where 1abc_A is the name of a file
  }
  names = tell_apart(names, others);
  const std::vector<std::string> files = file_names(names);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].name = names[i], entries[i].file = files[i];
}

}  // namespace

Entries entries_of(const StructureLibrary& library, const DataConfig& options) {
  const bool by_chain = options.unit == "chain";
  Entries entries;
  const auto add = [&](Entry entry) {
    if (entry.known >= options.min_residues) {
      entries.kept.push_back(std::move(entry));
    } else {
      const StructureView view = library.structure(entry.structure);
      entries.left_out.push_back(join(view.name, "_", by_chain ? view.chains[entry.chains.front()].name : std::string_view()));
      entries.residues_left_out += static_cast<uint64_t>(entry.residues);
    }
  };
  for (size_t s = 0; s < library.size(); ++s) {
    std::vector<size_t> chains(library.structure(s).chains.size());
    std::iota(chains.begin(), chains.end(), size_t{0});
    if (!by_chain) {
      add(entry_of(library, s, chains));
    } else {
      for (const size_t chain : chains) add(entry_of(library, s, {chain}));
    }
  }
  name_all(entries.kept, by_chain);
  return entries;
}

}  // namespace pipeline::protein
