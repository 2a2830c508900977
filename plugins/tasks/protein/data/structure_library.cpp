#include "plugins/tasks/protein/data/structure_library.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <unordered_set>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/input_files.hpp"
#include "plugins/tasks/protein/data/library_builder.hpp"
#include "plugins/tasks/protein/data/library_report.hpp"
#include "plugins/tasks/protein/data/structure_reader.hpp"

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

std::string report_path_of(const LibraryOptions& options, const std::string& root) {
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
  library.report_path_ = report_path_of(options, inputs.root);
  library.unusable_ = inputs.unreadable;
  LibraryCounts& counts = library.counts_;
  counts.files = inputs.files.size() + inputs.unreadable.size();
  counts.ignored = inputs.ignored_count();
  counts.read = built.read;
  counts.parsed = built.parsed;
  const auto names = names_of(inputs.files);
  std::unordered_set<files::Hash128, KeyHash> seen;  // hashes of chains
  for (size_t i = 0; i < inputs.files.size(); ++i) {
    const FileOutcome& outcome = built.outcomes[i];
    const StructureCache::Record* record = outcome.has_key ? library.cache_.find(outcome.key) : nullptr;
    if (outcome.has_key && record == nullptr) {
      throw files::DataError(StructureCache::path_in(options.cache_dir) + ": damaged since it was written a moment ago: check the disk");
    }
    const std::string& path = inputs.files[i].relative;
    if (record == nullptr || !record->is_structure()) {
      library.unusable_.push_back({path, record == nullptr ? outcome.reason : std::string(library.cache_.reason_of(*record))});
    } else if (!seen.insert(record->header.payload_hash).second) {
      ++counts.duplicates;
    } else {
      const size_t first = library.chains_.size();
      library.cache_.append_chains_of(*record, library.chains_);
      library.structures_.push_back({names[i], outcome.key, first, library.chains_.size() - first});
      const std::string_view remark = library.cache_.remark_of(*record);
      if (!remark.empty()) library.odd_.push_back({path, std::string(remark)});
    }
  }
  std::sort(library.unusable_.begin(), library.unusable_.end(), [](const FileNote& a, const FileNote& b) { return a.path < b.path; });
  counts.odd = library.odd_.size();
  counts.structures = library.structures_.size();
  counts.unusable = library.unusable_.size();
  for (const ChainView& chain : library.chains_) counts.residues += chain.residues.size();
  std::sort(library.structures_.begin(), library.structures_.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });

  files::Hasher128 hasher;
  hasher.update(std::to_string(kParserVersion));
  for (const Entry& entry : library.structures_)
    hasher.update(" " + std::to_string(entry.name.size()) + ":" + entry.name + entry.key.hex());
  library.fingerprint_ = hasher.finish();

  const std::string all = library_report(library.unusable_, library.odd_, std::numeric_limits<size_t>::max(), library.report_path_);
  if (!write_report(all, library.report_path_) && hooks.note) {
    hooks.note(library.report_path_ + ": the table of unusable files cannot be written there");
  }
  const double share = static_cast<double>(counts.unusable) / static_cast<double>(counts.files);
  if (counts.structures == 0 || share > options.max_unusable_share) {
    const std::string most = counts.structures == 0 ? "none is left: correct them"
                                                    : "at most " + percent(options.max_unusable_share) + " may be (" +
                                                          options.max_unusable_option + "): correct or remove them, or raise it";
    throw files::DataError(options.root + ": " + std::to_string(counts.unusable) + " of " + std::to_string(counts.files) +
                           (counts.files == 1 ? " file" : " files") + " cannot be used (" + percent(share) + "), " + most + "\n" +
                           library.report());
  }
  return library;
}

StructureView StructureLibrary::structure(uint64_t i) const {
  const Entry& entry = structures_[i];
  return {entry.name, entry.key, std::span(chains_).subspan(entry.first_chain, entry.chains)};
}

std::string StructureLibrary::report() const { return library_report(unusable_, odd_, kRowsShown, report_path_); }

}  // namespace pipeline::protein
