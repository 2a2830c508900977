#include "plugins/tasks/protein/data/structure_library.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/input_files.hpp"
#include "plugins/tasks/protein/data/library_builder.hpp"
#include "plugins/tasks/protein/data/structure_reader.hpp"
#include "plugins/tasks/protein/data/unusable_report.hpp"

namespace pipeline::protein {
namespace {

constexpr size_t kRowsShown = 20;

// Relative paths without endings where that tells them apart, else the whole paths.
std::vector<std::string> names_of(const std::vector<InputFile>& inputs) {
  std::vector<std::string> names;
  for (const auto& input : inputs) names.push_back(without_ending(input.relative));
  for (bool changed = true; changed;) {  // a whole path can be the name of another file: then that one gets its whole path, too
    changed = false;
    std::map<std::string_view, size_t> uses;
    for (const auto& name : names) ++uses[name];
    std::vector<size_t> doubled;
    for (size_t i = 0; i < names.size(); ++i) {
      if (uses[names[i]] > 1 && names[i] != inputs[i].relative) doubled.push_back(i);
    }
    for (const size_t i : doubled) names[i] = inputs[i].relative;
    changed = !doubled.empty();
  }
  return names;
}

std::string unusable_path_of(const LibraryOptions& options, const std::string& root) {
  if (!options.unusable_path.empty()) return options.unusable_path;
  return (std::filesystem::path(options.cache_dir) / ("protein-unusable-" + files::hash128(root).hex().substr(0, 8) + ".txt")).string();
}

std::string percent(double share) { return std::to_string(static_cast<int>(share * 100 + 0.5)) + "%"; }

}  // namespace

StructureLibrary StructureLibrary::open(const LibraryOptions& options, const LibraryHooks& hooks) {
  const auto check = [&] {
    if (hooks.cancelled && hooks.cancelled()) throw files::Cancelled();
  };
  const InputFiles inputs = find_inputs(options.root, check);
  if (hooks.note && !inputs.ignored.empty()) hooks.note("ignored " + inputs.ignored_text());
  Built built = build_library(inputs, options, hooks);

  StructureLibrary library;
  library.cache_ = std::move(built.cache);
  library.unusable_path_ = unusable_path_of(options, inputs.root);
  LibraryCounts& counts = library.counts_;
  counts.files = inputs.files.size();
  counts.ignored = inputs.ignored_count();
  counts.read = built.read;
  counts.parsed = built.parsed;
  const auto names = names_of(inputs.files);
  std::unordered_set<files::Hash128, KeyHash> seen;
  for (size_t i = 0; i < inputs.files.size(); ++i) {
    const FileOutcome& outcome = built.outcomes[i];
    const StructureCache::Record* record = outcome.has_key ? library.cache_.find(outcome.key) : nullptr;
    if (outcome.has_key && record == nullptr) {
      throw files::DataError(StructureCache::path_in(options.cache_dir) + ": damaged since it was written a moment ago: check the disk");
    }
    if (record == nullptr || !record->is_structure()) {
      library.unusable_.push_back(
          {inputs.files[i].relative, record == nullptr ? outcome.reason : std::string(library.cache_.reason_of(*record))});
    } else if (!seen.insert(outcome.key).second) {
      ++counts.duplicates;
    } else {
      const size_t first = library.chains_.size();
      library.cache_.append_chains_of(*record, library.chains_);
      library.structures_.push_back({names[i], inputs.files[i].relative, outcome.key, first, library.chains_.size() - first});
    }
  }
  counts.structures = library.structures_.size();
  counts.unusable = library.unusable_.size();
  for (const ChainView& chain : library.chains_) counts.residues += chain.residues.size();
  std::sort(library.structures_.begin(), library.structures_.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });

  files::Hasher128 hasher;
  hasher.update(std::to_string(kParserVersion));
  for (const Entry& entry : library.structures_)
    hasher.update(" " + std::to_string(entry.name.size()) + ":" + entry.name + entry.key.hex());
  library.fingerprint_ = hasher.finish();

  if (!write_unusable(library.unusable_, library.unusable_path_) && hooks.note) {
    hooks.note(library.unusable_path_ + ": the table of unusable files cannot be written there");
  }
  const double share = static_cast<double>(counts.unusable) / static_cast<double>(counts.files);
  if (counts.structures == 0 || share > options.max_unusable_share) {
    const std::string most = counts.structures == 0 ? "none is left" : "at most " + percent(options.max_unusable_share) + " may be";
    throw files::DataError(options.root + ": " + std::to_string(counts.unusable) + " of " + std::to_string(counts.files) +
                           (counts.files == 1 ? " file" : " files") + " cannot be used (" + percent(share) + "), " + most +
                           ": correct or remove them\n" + library.report());
  }
  return library;
}

StructureView StructureLibrary::structure(uint64_t i) const {
  const Entry& entry = structures_[i];
  return {entry.name, entry.path, entry.key, std::span(chains_).subspan(entry.first_chain, entry.chains)};
}

std::string StructureLibrary::report() const { return unusable_table(unusable_, kRowsShown, unusable_path_); }

}  // namespace pipeline::protein
