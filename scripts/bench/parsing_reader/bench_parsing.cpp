// Times our readers of PDB, mmCIF and FASTA files, on one thread, for scripts/bench/parsing.
//
//   bench_parsing files < PATHS      for each path, one a line: the seconds to read and parse the file, and
//   its
//                                    residues
//   bench_parsing library FOLDER CACHE_FOLDER
//                                    the seconds to open the folder as the protein task does, with what the
//                                    cache folder has, and the residues
//   bench_parsing sequences < PATHS  as files, of FASTA
//   bench_parsing store FILE CACHE_FOLDER
//                                    as library, of FASTA
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "plugins/data/sequences/sequence_store.hpp"
#include "plugins/data/structures/file_content.hpp"
#include "plugins/data/structures/structure.hpp"
#include "plugins/data/structures/structure_library.hpp"

namespace {

using namespace pipeline::structures;

// work() returns how many residues there are.
template <class Work>
void time(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t residues = work();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%.9f %llu\n", seconds, static_cast<unsigned long long>(residues));
  std::fflush(stdout);  // the other side waits for it
}

uint64_t residues_in(const std::string& path) {
  uint64_t count = 0;
  for (const Chain& chain : read_structure(path, {}).chains) count += chain.residues.size();
  return count;
}

uint64_t residues_below(const std::string& folder, const std::string& cache) {
  LibraryOptions options;
  options.root = folder;
  options.cache_dir = cache;
  return StructureLibrary::open(options, {}).counts().residues;
}

uint64_t residues_of(const std::string& fasta) {
  namespace sequences = pipeline::sequences;
  uint64_t count = 0;
  sequences::SourceReport report;
  sequences::read_sequences(pipeline::sources::find(fasta, pipeline::sources::Content::kSequences), {},
                            [&](const sequences::Sequence& sequence) { count += sequence.codes.size(); },
                            report, {});
  return count;
}

uint64_t residues_stored(const std::string& fasta, const std::string& cache) {
  namespace sources = pipeline::sources;
  const auto source = sources::find_and_hash(fasta, cache, {}, sources::Content::kSequences);
  return pipeline::sequences::SequenceStore::open(source, {.cache_folder = cache, .columns = {}, .read = {}},
                                                  {})
      .residues();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "files" && argc == 2) {
    for (std::string path; std::getline(std::cin, path);) time([&] { return residues_in(path); });
  } else if (what == "library" && argc == 4) {
    time([&] { return residues_below(argv[2], argv[3]); });
  } else if (what == "sequences" && argc == 2) {
    for (std::string path; std::getline(std::cin, path);) time([&] { return residues_of(path); });
  } else if (what == "store" && argc == 4) {
    time([&] { return residues_stored(argv[2], argv[3]); });
  } else {
    std::fprintf(
        stderr,
        "usage: bench_parsing files < PATHS, bench_parsing library FOLDER CACHE_FOLDER, bench_parsing "
        "sequences < PATHS, or bench_parsing store FILE CACHE_FOLDER\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_parsing: %s\n", error.what());
  return 1;
}
