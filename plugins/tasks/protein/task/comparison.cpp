#include "plugins/tasks/protein/task/dataset.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_set>

#include "plugins/data/files/hash128.hpp"
#include "plugins/tasks/protein/clusters/clusters.hpp"

namespace pipeline::protein {
namespace {

using files::bytes_of;

constexpr uint32_t kVersion = 2;  // raise it whenever the same sequences would be found alike otherwise
// Of the alignments of a comparison of all pairs: some twelve minutes of one core, or one with the sequences
// that 20,000 have held out. A constant, since what is held out may not depend on the machine.
constexpr double kMostCells = 1e13;

// The sequences of samples, and whose they are.
struct Sequences {
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  std::vector<uint32_t> owner;

  explicit Sequences(std::span<const Entry* const> entries) {
    for (uint32_t e = 0; e < entries.size(); ++e) {
      const Entry& entry = *entries[e];
      const StructureView structure = entry.library->structure(entry.structure);
      for (const size_t chain : entry.chains) {
        std::string text;
        for (const Residue& residue : structure.chains[chain].residues) text += letter_of(residue.amino_acid);
        texts.push_back(std::move(text));
        owner.push_back(e);
      }
    }
    views.assign(texts.begin(), texts.end());
  }
};

void add(files::Hasher128& hasher, const Sequences& sequences) {
  for (const std::string& text : sequences.texts) hasher.update(text).update("\n");
  hasher.update("\n");
}

files::Hasher128 hasher_of(std::string_view what, const ClusterOptions& options) {
  files::Hasher128 hasher;
  hasher.update(what).update(bytes_of(kVersion));
  hasher.update(bytes_of(options.identity))
      .update(bytes_of(options.coverage))
      .update(bytes_of(options.evalue));
  return hasher;
}

}  // namespace

std::string cache_folder(const ProteinConfig& config, const Context& context) {
  return config.cache_dir.empty() ? std::string(view(context.run().cache_dir)) : config.cache_dir.string();
}

unsigned data_threads(const Context& context) {
  return std::max(1u, context.run().threads) *
         static_cast<unsigned>(std::max(1, context.run().local_world_size));
}

size_t count_chains(std::span<const Entry> entries) {
  size_t chains = 0;
  for (const Entry& entry : entries) chains += entry.chains.size();
  return chains;
}

Comparison::Comparison(const ProteinConfig& config, const Context& context)
    : context_(context),
      options_{.identity = config.split.identity,
               .coverage = config.split.coverage,
               .exact_up_to = static_cast<size_t>(config.split.exact_up_to)},
      cache_{.folder = cache_folder(config, context),
             .note = [&context](const std::string& line) { context.warn(line); },
             .cancelled = [&context] { return context.cancelled(); }} {}

files::Hooks Comparison::hooks() const {
  return {.threads = data_threads(context_),
          .progress = [this](uint64_t done,
                             uint64_t total) { context_.progress("comparing sequences", done, total); },
          .cancelled = [this] { return context_.cancelled(); }};
}

bool Comparison::cluster(std::vector<Entry>& entries) const {
  std::vector<const Entry*> all;
  for (const Entry& entry : entries) all.push_back(&entry);
  const Sequences sequences(all);
  const size_t distinct =
      std::unordered_set<std::string_view>(sequences.views.begin(), sequences.views.end()).size();
  const bool exact = distinct <= options_.exact_up_to;
  if (!exact)
    context_.warn(distinct, " distinct sequences, more than task.split.exact_up_to (", options_.exact_up_to,
                  "), compared by prefilter: relatives below 40% identity may be missed (of pairs of 200 "
                  "residues it finds 97% at 45% identity, "
                  "89% at 40%, 68% at 35%)");
  files::Hasher128 key = hasher_of("clusters", options_);
  key.update(bytes_of(exact));
  add(key, sequences);
  const std::vector<uint32_t> of_sequence = cache_.get(key.finish(), sequences.views.size(), [&] {
    return cluster_sequences(sequences.views, options_, hooks());
  });

  DisjointSets sets(entries.size());
  // By cluster of sequences: a sample that has one of it.
  std::vector<size_t> first(sequences.views.size(), SIZE_MAX);
  for (size_t i = 0; i < sequences.owner.size(); ++i) {
    size_t& sample = first[of_sequence[i]];
    if (sample == SIZE_MAX) sample = sequences.owner[i];
    sets.join(static_cast<uint32_t>(sample), sequences.owner[i]);
  }
  std::vector<uint32_t> number_of(entries.size(), UINT32_MAX);
  uint32_t next = 0;
  for (size_t e = 0; e < entries.size(); ++e) {
    uint32_t& number = number_of[sets.first(static_cast<uint32_t>(e))];
    if (number == UINT32_MAX) number = next++;
    entries[e].cluster = number;
  }
  std::vector<std::set<std::string_view>> of_cluster(next);
  for (size_t i = 0; i < sequences.owner.size(); ++i)
    of_cluster[entries[sequences.owner[i]].cluster].insert(sequences.views[i]);
  std::vector<uint64_t> keys;
  for (const std::set<std::string_view>& members : of_cluster) {
    files::Hasher128 hasher;
    for (const std::string_view member : members) hasher.update(member).update("\n");
    keys.push_back(hasher.finish().low);
  }
  for (Entry& entry : entries) entry.cluster_key = keys[entry.cluster];
  return exact;
}

bool Comparison::is_affordable(std::span<const Entry* const> queries,
                               std::span<const Entry* const> references) {
  const auto residues = [](std::span<const Entry* const> entries) {
    double sum = 0;
    for (const Entry* entry : entries) sum += static_cast<double>(entry->residues);
    return sum;
  };
  return residues(queries) * residues(references) <= kMostCells;
}

std::vector<uint8_t> Comparison::similar(std::span<const Entry* const> queries,
                                         std::span<const Entry* const> references, size_t set_size) const {
  std::vector<uint8_t> result(queries.size());
  if (queries.empty() || references.empty()) return result;
  const Sequences wanted(queries), known(references);
  const SimilarOptions options{
      .similar = options_, .set_size = set_size, .prefiltered = !is_affordable(queries, references)};
  files::Hasher128 key = hasher_of("similar", options_);
  key.update(bytes_of(options.set_size)).update(bytes_of(options.prefiltered));
  add(key, wanted);
  add(key, known);
  const std::vector<uint32_t> found = cache_.get(key.finish(), wanted.views.size(), [&] {
    const std::vector<uint8_t> alike = find_similar(wanted.views, known.views, options, hooks());
    return std::vector<uint32_t>(alike.begin(), alike.end());
  });
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != 0) result[wanted.owner[i]] = 1;
  return result;
}

}  // namespace pipeline::protein
