#include "plugins/tasks/protein/task/dataset.hpp"

#include <pipeline/text.hpp>

#include <algorithm>
#include <numeric>

#include "plugins/data/structures/names.hpp"
#include "plugins/tasks/protein/task/task_state.hpp"

namespace pipeline::protein {
namespace {

Entry entry_of(const StructureLibrary& library, size_t number, const StructureView& structure,
               std::vector<size_t> chains) {
  Entry entry{.name = {},
              .file = {},
              .library = &library,
              .structure = number,
              .chains = std::move(chains),
              .keys = {}};
  for (const size_t chain : entry.chains) {
    const auto& residues = structure.chains[chain].residues;
    entry.residues += static_cast<int64_t>(residues.size());
    entry.known += std::count_if(residues.begin(), residues.end(),
                                 [](const Residue& r) { return r.amino_acid < kAminoAcidCount; });
    entry.keys.push_back(content_key(residues));
  }
  entry.key = content_key(entry.keys);
  return entry;
}

// Of a chain in a structure that is called so; chains may have no name.
std::string join(std::string_view structure, const char* by, std::string_view chain) {
  return concat(structure, chain.empty() ? "" : by, chain);
}

}  // namespace

Entries entries_of(const StructureLibrary& library, const DataConfig& options) {
  const bool by_chain = options.unit == "chain";
  Entries entries;
  std::vector<std::string> names, others;  // others: 1abc:A, where 1abc_A is the name of a file
  for (size_t s = 0; s < library.size(); ++s) {
    const StructureView structure = library.structure(s);  // once: each time all of it is verified
    const auto add = [&](std::vector<size_t> chains) {
      const std::string_view chain = by_chain ? structure.chains[chains.front()].name : std::string_view();
      const std::string name = join(structure.name, "_", chain);
      Entry entry = entry_of(library, s, structure, std::move(chains));
      if (entry.known < options.min_residues) {
        entries.left_out.push_back(name);
        entries.residues_left_out += static_cast<uint64_t>(entry.residues);
        return;
      }
      entries.kept.push_back(std::move(entry));
      names.push_back(name);
      others.push_back(join(structure.name, ":", chain));
    };
    std::vector<size_t> chains(structure.chains.size());
    std::iota(chains.begin(), chains.end(), size_t{0});
    if (!by_chain) {
      add(chains);
    } else {
      for (const size_t chain : chains) add({chain});
    }
  }
  names = tell_apart(names, others);
  const std::vector<std::string> files = file_names(names);
  for (size_t i = 0; i < names.size(); ++i) entries.kept[i].name = names[i], entries.kept[i].file = files[i];
  return entries;
}

}  // namespace pipeline::protein
