#include "plugins/tasks/protein/task/dataset.hpp"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <set>
#include <sstream>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/clusters/disjoint_sets.hpp"
#include "plugins/tasks/protein/clusters/folds.hpp"
#include "plugins/tasks/protein/task/cluster_cache.hpp"

namespace pipeline::protein {
namespace {

std::string cache_folder(const ProteinConfig& config, const Context& context) {
  return config.cache_dir.empty() ? std::string(view(context.run().cache_dir)) : config.cache_dir.string();
}

// Of the one process that prepares data, while the others of its host wait for it.
unsigned data_threads(const Context& context) {
  return std::max(1u, context.run().threads) * static_cast<unsigned>(std::max(1, context.run().local_world_size));
}

std::string letters(std::span<const Residue> residues) {
  std::string text;
  for (const Residue& residue : residues) text += letter_of(residue.amino_acid);
  return text;
}

StructureLibrary open_library(const std::filesystem::path& root, const ProteinConfig& config, const Context& context) {
  LibraryHooks hooks;
  hooks.threads = data_threads(context);
  hooks.progress = [&](uint64_t done, uint64_t total) { context.progress("reading structures", done, total); };
  hooks.note = [&](const std::string& line) { context.info(line); };
  hooks.cancelled = [&] { return context.cancelled(); };
  StructureLibrary library = StructureLibrary::open({.root = root.string(),
                                                     .cache_dir = cache_folder(config, context),
                                                     .limits = {.max_file_bytes = static_cast<uint64_t>(config.data.max_file_mb) << 20},
                                                     .max_unusable_share = config.data.max_unusable,
                                                     .unusable_path = ""},
                                                    hooks);
  const LibraryCounts& counts = library.counts();
  context.info("structures ", counts.structures, " in ", root.string(), ", ", counts.residues, " residues", counts.duplicates > 0 ? "; " : "",
               counts.duplicates > 0 ? std::to_string(counts.duplicates) + " files are copies of others" : "", counts.unusable > 0 ? "; " : "",
               counts.unusable > 0 ? std::to_string(counts.unusable) + " of " + std::to_string(counts.files) + " files cannot be used:" : "");
  std::istringstream lines(library.report());
  for (std::string line; std::getline(lines, line);) context.warn(line);
  return library;
}

[[noreturn]] void fail_with_system(const std::string& message, int code) {
  fail_with(code == ENOSPC || code == EDQUOT ? PL_ERROR_NO_SPACE : PL_ERROR_CONFIG, message);
}

const char* name_of(Split split) { return split == Split::kTrain ? "training" : split == Split::kVal ? "validation" : "test"; }

}  // namespace

Dataset::Dataset(const ProteinConfig& config, const Context& context) : config_(config) {
  const uint32_t purpose = context.run().purpose;
  if (purpose == PL_PURPOSE_EXPORT) return;  // reads no data
  const bool own_test = !config.test_path.empty() && purpose != PL_PURPOSE_TRAIN;
  try {
    if (is_needed(own_test, purpose, context)) {
      structures_.emplace(open_library(config.pdb_path, config, context));
      deal_out(entries_of(*structures_), context);
      fingerprint_ = structures_->fingerprint().hex();
    }
    if (own_test) {
      test_structures_.emplace(open_library(config.test_path, config, context));
      add_test_structures(entries_of(*test_structures_), context);
      fingerprint_ += test_structures_->fingerprint().hex();
    }
  } catch (const files::DataError& error) {
    fail_with_system(error.what(), error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    fail_with_system(error.what(), error.code().value());
  } catch (const files::Cancelled& error) {
    fail_with(PL_ERROR_CANCELLED, error.what());
  }
  describe(context);
}

// Whether the folder that was learnt from is: with test data of their own a model can be used where it is not.
bool Dataset::is_needed(bool own_test, uint32_t purpose, const Context& context) const {
  if (!own_test) return true;
  if (purpose == PL_PURPOSE_PREDICT) return false;
  if (std::filesystem::exists(config_.pdb_path)) return true;
  context.warn(config_.pdb_path.string(), " is not there, so that nobody can say whether the test data are like some that were learnt from");
  return false;
}

std::vector<Dataset::Entry> Dataset::entries_of(const StructureLibrary& library) const {
  std::vector<Entry> entries;
  const auto add = [&](Entry entry, const StructureView& structure) {
    for (const size_t chain : entry.chains) {
      const auto& residues = structure.chains[chain].residues;
      entry.residues += static_cast<int64_t>(residues.size());
      entry.known += std::count_if(residues.begin(), residues.end(), [](const Residue& r) { return r.amino_acid < kAminoAcidCount; });
    }
    if (entry.known >= config_.data.min_residues) entries.push_back(std::move(entry));
  };
  for (size_t s = 0; s < library.size(); ++s) {
    const StructureView structure = library.structure(s);
    std::vector<size_t> chains(structure.chains.size());
    std::iota(chains.begin(), chains.end(), size_t{0});
    if (config_.data.unit == "structure") {
      add({.name = std::string(structure.name), .library = &library, .structure = s, .chains = chains}, structure);
      continue;
    }
    for (const size_t chain : chains) {
      const std::string_view chain_name = structure.chains[chain].name;  // empty where the file names none
      std::string name = concat(structure.name, chain_name.empty() ? "" : "_", chain_name);
      add({.name = std::move(name), .library = &library, .structure = s, .chains = {chain}}, structure);
    }
  }
  return entries;
}

// A number for each sample: samples have the same if a chain of similar chains, and of chains of one sample, joins them. Numbered by first
// appearance.
std::vector<uint32_t> Dataset::clusters_of(const std::vector<Entry>& entries, const Context& context) const {
  std::vector<std::string> sequences;
  std::vector<size_t> owner;  // of each sequence
  for (size_t e = 0; e < entries.size(); ++e) {
    const StructureView structure = entries[e].library->structure(entries[e].structure);
    for (const size_t chain : entries[e].chains) {
      sequences.push_back(letters(structure.chains[chain].residues));
      owner.push_back(e);
    }
  }
  ClusterHooks hooks{.threads = data_threads(context)};
  hooks.progress = [&](uint64_t done, uint64_t total) { context.progress("comparing sequences", done, total); };
  hooks.cancelled = [&] { return context.cancelled(); };
  const std::vector<std::string_view> views(sequences.begin(), sequences.end());
  const std::vector<uint32_t> of_sequence =
      cached_clusters(cache_folder(config_, context), views, {.identity = config_.split.identity, .coverage = config_.split.coverage}, hooks);

  DisjointSets sets(entries.size());
  std::vector<size_t> first(sequences.size(), SIZE_MAX);  // by cluster of sequences: a sample that has one of it
  for (size_t i = 0; i < owner.size(); ++i) {
    size_t& sample = first[of_sequence[i]];
    if (sample == SIZE_MAX) sample = owner[i];
    sets.join(static_cast<uint32_t>(sample), static_cast<uint32_t>(owner[i]));
  }
  std::vector<uint32_t> numbers(entries.size()), number_of(entries.size(), UINT32_MAX);
  uint32_t next = 0;
  for (size_t e = 0; e < entries.size(); ++e) {
    uint32_t& number = number_of[sets.first(static_cast<uint32_t>(e))];
    if (number == UINT32_MAX) number = next++;
    numbers[e] = number;
  }
  return numbers;
}

// Whole clusters go to a split.
void Dataset::deal_out(std::vector<Entry> all, const Context& context) {
  const std::vector<uint32_t> clusters = clusters_of(all, context);
  std::vector<uint64_t> residues;
  for (size_t e = 0; e < all.size(); ++e) {
    if (clusters[e] >= residues.size()) residues.resize(clusters[e] + 1);
    residues[clusters[e]] += static_cast<uint64_t>(all[e].residues);
  }
  const auto folds = static_cast<uint32_t>(config_.split.folds), fold = static_cast<uint32_t>(config_.split.fold);
  const std::vector<uint32_t> fold_of = assign_folds(residues, folds);
  for (size_t e = 0; e < all.size(); ++e) {
    all[e].cluster = clusters[e];
    Split split = Split::kTrain;
    if (fold_of[clusters[e]] == fold && config_.test_path.empty()) split = Split::kTest;
    if (fold_of[clusters[e]] == (fold + 1) % folds) split = Split::kVal;
    entries_[static_cast<size_t>(split)].push_back(std::move(all[e]));
  }
}

// Training does not depend on test data of their own: only what is said of them does.
void Dataset::add_test_structures(std::vector<Entry> test, const Context& context) {
  std::vector<Entry> all = entries_[static_cast<size_t>(Split::kTrain)];
  const size_t learnt = all.size();
  all.insert(all.end(), test.begin(), test.end());
  const std::vector<uint32_t> clusters = clusters_of(all, context);
  const std::set<uint32_t> known(clusters.begin(), clusters.begin() + static_cast<ptrdiff_t>(learnt));
  uint64_t alike = 0;
  for (size_t e = 0; e < test.size(); ++e) {
    test[e].cluster = clusters[learnt + e];
    alike += known.contains(test[e].cluster) ? 1 : 0;
  }
  if (alike > 0)
    context.warn(alike, " of the ", test.size(), " samples of task.test_path are like some that were learnt from: figures over them say little about new proteins");
  entries_[static_cast<size_t>(Split::kTest)] = std::move(test);
}

void Dataset::describe(const Context& context) const {
  std::string text;
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    if (size(split) == 0 && !structures_) continue;  // not looked for
    int64_t residues = 0;
    std::set<uint32_t> clusters;
    for (const Entry& entry : entries_[static_cast<size_t>(split)]) residues += entry.residues, clusters.insert(entry.cluster);
    text += concat(text.empty() ? "" : "; ", name_of(split), " ", size(split), config_.data.unit == "chain" ? " chains" : " structures", " of ",
                   clusters.size(), " clusters, ", residues, " residues");
  }
  context.info("data       ", text);
  if (context.run().purpose == PL_PURPOSE_TRAIN && size(Split::kTrain) == 0)
    fail_with(PL_ERROR_CONFIG, config_.pdb_path.string(), ": no sample is left to learn from: the clusters of similar sequences are too few for ",
              config_.split.folds, " parts (task.split.folds); give more structures, or lower task.data.min_residues (", config_.data.min_residues, ")");
}

Sample Dataset::sample(Split split, uint64_t id) const {
  const Entry& from = entry(split, id);
  const StructureView structure = from.library->structure(from.structure);
  std::vector<std::span<const Residue>> chains;
  for (const size_t chain : from.chains) chains.push_back(structure.chains[chain].residues);
  return make_sample(chains);
}

std::vector<std::string> Dataset::chain_names(Split split, uint64_t id) const {
  const Entry& from = entry(split, id);
  const StructureView structure = from.library->structure(from.structure);
  std::vector<std::string> names;
  for (const size_t chain : from.chains) names.emplace_back(structure.chains[chain].name);
  return names;
}

Frequencies Dataset::frequencies() const {
  Frequencies counts;
  counts.fill(1);
  for (const Entry& entry : entries_[static_cast<size_t>(Split::kTrain)]) {
    const StructureView structure = entry.library->structure(entry.structure);
    for (const size_t chain : entry.chains)
      for (const Residue& residue : structure.chains[chain].residues)
        if (residue.amino_acid < kAminoAcidCount) counts[residue.amino_acid] += 1;
  }
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  for (double& count : counts) count /= all;
  return counts;
}

}  // namespace pipeline::protein
