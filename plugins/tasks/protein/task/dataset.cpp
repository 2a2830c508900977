#include "plugins/tasks/protein/task/dataset.hpp"

#include <numeric>
#include <set>
#include <sstream>

#include "plugins/data/files/data_errors.hpp"
#include "plugins/tasks/protein/task/report_text.hpp"

namespace pipeline::protein {
namespace {

StructureLibrary open_library(const std::filesystem::path& root, const ProteinConfig& config,
                              const Context& context) {
  files::Hooks hooks;
  hooks.threads = data_threads(context);
  hooks.progress = [&](uint64_t done, uint64_t total) {
    context.progress("reading structures", done, total);
  };
  hooks.note = [&](const std::string& line) { context.info(line); };
  hooks.cancelled = [&] { return context.cancelled(); };
  StructureLibrary library = StructureLibrary::open(
      {.root = root.string(),
       .cache_dir = cache_folder(config, context),
       .limits = {.max_file_bytes = static_cast<uint64_t>(config.data.max_file_mb) << 20,
                  .option = "task.data.max_file_mb"},
       .max_unusable_share = config.data.max_unusable,
       .max_unusable_option = "task.data.max_unusable"},
      hooks);
  const LibraryCounts& counts = library.counts();
  std::string text =
      concat("structures ", counts.structures, " in ", root.string(), ", ", counts.residues, " residues");
  if (counts.duplicates > 0)
    text += concat("; ", counts.duplicates,
                   counts.duplicates == 1 ? " file is a copy of another" : " files are copies of others");
  if (counts.unusable > 0)
    text += concat("; ", counts.unusable, " of ", counts.files, " files cannot be used:");
  context.info(text);
  std::istringstream lines(library.report());
  for (std::string line; std::getline(lines, line);) context.warn(line);
  return library;
}

StructureView structure_of(const Entry& entry) {
  return files::with_data_errors([&] { return entry.library->structure(entry.structure); });
}

}  // namespace

const char* name_of(Split split) {
  return split == Split::kTrain ? "training" : split == Split::kVal ? "validation" : "test";
}

Dataset::Dataset(const ProteinConfig& config, const Context& context, const Learnt* learnt)
    : config_(config),
      context_(context),
      comparison_(config, context_),
      own_test_(!config.test_path.empty() && context.run().purpose != PL_PURPOSE_TRAIN) {
  if (context.run().purpose == PL_PURPOSE_EXPORT) return;  // reads no data
  files::with_data_errors([&] {
    if (needs_structures()) {
      deal_out(open(structures_, config.pdb_path, "task.pdb_path"));
      fingerprint_ = structures_->fingerprint().hex();
    }
    if (own_test_) {
      take_test_structures(open(test_structures_, config.test_path, "task.test_path"), learnt);
      fingerprint_ += test_structures_->fingerprint().hex();
    }
  });
  describe();
}

// Whether the folder that was learnt from is: with test data of their own a model can be used where it is
// not.
bool Dataset::needs_structures() const {
  if (!own_test_) return true;
  if (context_.run().purpose == PL_PURPOSE_PREDICT) return false;
  if (std::filesystem::exists(config_.pdb_path)) return true;
  context_.warn(config_.pdb_path.string(),
                " is missing, so the test data cannot be compared with the training data");
  return false;
}

std::vector<Entry> Dataset::open(std::optional<StructureLibrary>& library, const std::filesystem::path& root,
                                 const char* key) {
  Entries entries = entries_of(library.emplace(open_library(root, config_, context_)), config_.data);
  const std::string left_out =
      concat(counted(entries.left_out.size(), config_.data.unit), " of ", entries.residues_left_out,
             " residues, which have fewer than ", "task.data.min_residues (", config_.data.min_residues,
             ") known ones: ", first_of(entries.left_out));
  if (entries.kept.empty())
    fail_with(PL_ERROR_CONFIG, key, " = ", root.string(), ": no sample is left without ", left_out);
  if (!entries.left_out.empty()) context_.info("left out   ", left_out);
  return std::move(entries.kept);
}

void Dataset::describe() const {
  std::string text;
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    if (size(split) == 0 && !structures_) continue;  // not looked for
    int64_t residues = 0;
    std::set<uint32_t> clusters;
    for (const Entry& entry : entries(split)) residues += entry.residues, clusters.insert(entry.cluster);
    const bool grouped = split != Split::kTest || !own_test_ || context_.run().purpose != PL_PURPOSE_PREDICT;
    text += concat(text.empty() ? "" : "; ", name_of(split), " ", counted(size(split), config_.data.unit),
                   " of ", grouped ? counted(clusters.size(), "cluster") + ", " : "", residues, " residues");
  }
  context_.info("data       ", text);
  if (context_.run().purpose != PL_PURPOSE_TRAIN) return;
  if (size(Split::kTrain) == 0)
    fail_with(PL_ERROR_CONFIG, config_.pdb_path.string(),
              ": no sample is left to learn from: the clusters of similar sequences are too few for ",
              config_.split.folds,
              " parts (task.split.folds); give more structures, or lower task.data.min_residues (",
              config_.data.min_residues, ")");
  if (!config_.test_path.empty())
    context_.info(
        "test       task.test_path is what evaluations and predictions use; the test part of task.pdb_path "
        "is held out all the same");
}

Sample Dataset::sample(Split split, uint64_t id) const {
  const Entry& from = entry(split, id);
  const StructureView structure = structure_of(from);
  std::vector<std::span<const Residue>> chains;
  for (const size_t chain : from.chains) chains.push_back(structure.chains[chain].residues);
  return make_sample(chains);
}

std::vector<std::string> Dataset::chain_names(Split split, uint64_t id) const {
  const Entry& from = entry(split, id);
  const StructureView structure = structure_of(from);
  std::vector<std::string> names;
  for (const size_t chain : from.chains) names.emplace_back(structure.chains[chain].name);
  return names;
}

Frequencies Dataset::frequencies() const {
  Frequencies counts;
  counts.fill(1);
  for (const Entry& entry : entries(Split::kTrain)) {
    const StructureView structure = structure_of(entry);
    for (const size_t chain : entry.chains)
      for (const Residue& residue : structure.chains[chain].residues)
        if (residue.amino_acid < kAminoAcidCount) counts[residue.amino_acid] += 1;
  }
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  for (double& count : counts) count /= all;
  return counts;
}

Learnt Dataset::learnt() const {
  Learnt learnt;
  for (const auto& [split, keys] :
       {std::pair(Split::kTrain, &learnt.training), std::pair(Split::kVal, &learnt.validation)})
    for (const Entry& entry : entries(split)) keys->insert(entry.keys.begin(), entry.keys.end());
  return learnt;
}

Dataset::Seen Dataset::seen(Split split, const Learnt& learnt) const {
  Seen seen;
  for (const Entry& entry : entries(split)) {
    const bool trained = any_of(entry.keys, learnt.training);
    seen.training += trained ? 1 : 0;
    seen.validation += !trained && any_of(entry.keys, learnt.validation) ? 1 : 0;
  }
  return seen;
}

}  // namespace pipeline::protein
