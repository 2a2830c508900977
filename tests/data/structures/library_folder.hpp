// A folder of structure files, a cache folder, and what opening them says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plugins/data/structures/structure_library.hpp"
#include "tests/data/structures/pdb_text.hpp"

namespace pipeline::structures {

struct LibraryFolder {
  tests::FilesFolder files, cache;
  std::vector<std::string> notes;

  LibraryOptions options() const {
    return {.root = files.path(), .cache_dir = cache.path(), .max_unusable_share = 0.9};
  }
  files::Hooks hooks() {
    files::Hooks hooks;
    hooks.threads = 2;
    hooks.note = [this](const std::string& note) { notes.push_back(note); };
    return hooks;
  }
  StructureLibrary open() {
    notes.clear();
    return StructureLibrary::open(options(), hooks());
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(files / name).parent_path());
    files.write(name, text);
  }
  std::string cache_file() const { return structures_path(cache.path()); }
};

// "a:AGS b/c:W/G": names, and the sequences of their chains.
inline std::string contents_of(const StructureLibrary& library) {
  std::string text;
  for (uint64_t i = 0; i < library.size(); ++i) {
    const StructureView structure = library.structure(i);
    text += (i == 0 ? "" : " ") + std::string(structure.name) + ":";
    for (size_t c = 0; c < structure.chains.size(); ++c) {
      if (c > 0) text += "/";
      for (const residues::Residue& r : structure.chains[c].residues)
        text += residues::letter_of(r.amino_acid);
    }
  }
  return text;
}

}  // namespace pipeline::structures
