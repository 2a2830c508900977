#include "plugins/data/proteins/comparison.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_set>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/stores/record_store.hpp"
#include "plugins/data/structures/structure_record.hpp"

namespace pipeline::proteins {
namespace {

using files::bytes_of;

constexpr uint32_t kVersion = 2;  // raise it whenever the same sequences would be found alike otherwise
// The most pairs of residues in a comparison of all pairs: twelve minutes of one core, or 20,000 sequences
// with those held out of them. A constant, since what is held out may not depend on the machine.
constexpr double kMostAligned = 1e13;

// The sequences of samples, and whose they are: numbers of rows.
struct Sequences {
  std::string letters;
  std::vector<std::string_view> views;
  std::vector<uint32_t> owner;

  Sequences(const Samples& samples, std::span<const SplitRow> rows) {
    std::vector<size_t> ends;
    for (uint32_t row = 0; row < rows.size(); ++row)
      samples.each_chain(rows[row].sample, [&](std::string_view chain) {
        letters += chain;
        ends.push_back(letters.size());
        owner.push_back(row);
      });
    size_t begin = 0;
    for (const size_t end : ends) {
      views.push_back(std::string_view(letters).substr(begin, end - begin));
      begin = end;
    }
  }
  Sequences(const Sequences&) = delete;  // views point into it
  Sequences& operator=(const Sequences&) = delete;
};

void add(files::Hasher128& hasher, const Sequences& sequences) {
  for (const std::string_view text : sequences.views) hasher.update(text).update("\n");
  hasher.update("\n");
}

files::Hasher128 hasher_of(std::string_view what, const clusters::ClusterOptions& options) {
  files::Hasher128 hasher;
  hasher.update(what).update(bytes_of(kVersion));
  hasher.update(bytes_of(options.identity))
      .update(bytes_of(options.coverage))
      .update(bytes_of(options.evalue));
  return hasher;
}

namespace fs = std::filesystem;
using files::Hash128;

constexpr stores::Kind kClusters{.name = "CLUSTERS", .version = 1, .remedy = "sequences are compared again"};

std::optional<std::vector<uint32_t>> load(const std::string& path, const Hash128& key, size_t count) try {
  bool problem = false;
  const auto held = stores::load(path, kClusters, key, problem);
  if (!held || held->size() != count * sizeof(uint32_t)) return std::nullopt;
  std::vector<uint32_t> numbers(count);
  std::memcpy(numbers.data(), held->data(), held->size());
  return numbers;
} catch (const files::DataError&) {  // save() says so
  return std::nullopt;
}

}  // namespace

std::vector<uint32_t> ClusterCache::get(const Hash128& key, size_t count,
                                        const std::function<std::vector<uint32_t>()>& compute) const {
  const std::string path = fs::path(folder) / ("protein-clusters-" + key.hex() + ".bin");
  const auto tell = [&](const std::string& line) {
    if (note) note(line);
  };
  auto known = load(path, key, count);
  std::optional<files::FileLock> lock;
  if (!known) {
    try {
      lock.emplace((fs::path(folder) / structures::kLockName).string(),
                   [&] { tell("waiting for another process that compares sequences"); }, cancelled);
      known = load(path, key, count);    // the other has it by now
    } catch (const files::DataError&) {  // no lock, no cache: save() says so
    }
  }
  if (known) {
    files::mark_used(path);
    return *std::move(known);
  }
  std::vector<uint32_t> numbers = compute();
  try {
    stores::save(path, kClusters, key, files::bytes_of(numbers));
  } catch (const files::DataError& error) {
    tell(std::string(
             "the results of comparing sequences cannot be kept, so every process and run repeats it: ") +
         error.what());
  }
  return numbers;
}

std::string cache_folder(const ProteinData& config, const Context& context) {
  return config.cache_dir.empty() ? std::string(view(context.run().cache_dir)) : config.cache_dir.string();
}

unsigned data_threads(const Context& context) {
  return std::max(1u, context.run().threads) *
         static_cast<unsigned>(std::max(1, context.run().local_world_size));
}

files::Hooks data_hooks(const std::string& what, const Context& context) {
  return files::hooks_of(context, what, data_threads(context));
}

size_t count_chains(std::span<const SplitRow> rows) {
  size_t chains = 0;
  for (const SplitRow& row : rows) chains += row.chains;
  return chains;
}

uint64_t hash_of(std::string_view text) { return files::hash128(text).low; }

Comparison::Comparison(const ProteinData& config, const Context& context)
    : context_(context),
      options_{.identity = config.split.identity,
               .coverage = config.split.coverage,
               .exact_up_to = static_cast<size_t>(config.split.exact_up_to)},
      cache_{.folder = cache_folder(config, context),
             .note = [&context](const std::string& line) { context.warn(line); },
             .cancelled = [&context] { return context.cancelled(); }} {}

bool Comparison::cluster(const Samples& samples, std::span<SplitRow> rows) const {
  const Sequences sequences(samples, rows);
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
    return clusters::cluster_sequences(sequences.views, options_,
                                       data_hooks("comparing sequences", context_));
  });

  clusters::DisjointSets sets(rows.size());
  // For each cluster of sequences, the first sample that has one of them.
  std::vector<size_t> first(sequences.views.size(), SIZE_MAX);
  for (size_t i = 0; i < sequences.owner.size(); ++i) {
    size_t& sample = first[of_sequence[i]];
    if (sample == SIZE_MAX) sample = sequences.owner[i];
    sets.join(static_cast<uint32_t>(sample), sequences.owner[i]);
  }
  std::vector<uint32_t> number_of(rows.size(), UINT32_MAX);
  uint32_t next = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    uint32_t& number = number_of[sets.first(static_cast<uint32_t>(r))];
    if (number == UINT32_MAX) number = next++;
    rows[r].cluster = number;
  }
  std::vector<std::set<std::string_view>> of_cluster(next);
  for (size_t i = 0; i < sequences.owner.size(); ++i)
    of_cluster[rows[sequences.owner[i]].cluster].insert(sequences.views[i]);
  std::vector<uint64_t> keys;
  for (const std::set<std::string_view>& members : of_cluster) {
    files::Hasher128 hasher;
    for (const std::string_view member : members) hasher.update(member).update("\n");
    keys.push_back(hasher.finish().low);
  }
  for (SplitRow& row : rows) row.cluster_key = keys[row.cluster];
  return exact;
}

bool Comparison::is_affordable(std::span<const SplitRow> queries, std::span<const SplitRow> references) {
  const auto residues = [](std::span<const SplitRow> rows) {
    double sum = 0;
    for (const SplitRow& row : rows) sum += static_cast<double>(row.residues);
    return sum;
  };
  return residues(queries) * residues(references) <= kMostAligned;
}

std::vector<uint8_t> Comparison::similar(const Side& queries, const Side& references, size_t set_size) const {
  std::vector<uint8_t> result(queries.rows.size());
  if (queries.rows.empty() || references.rows.empty()) return result;
  const Sequences wanted(queries.samples, queries.rows), known(references.samples, references.rows);
  const clusters::SimilarOptions options{.similar = options_,
                                         .set_size = set_size,
                                         .prefiltered = !is_affordable(queries.rows, references.rows)};
  files::Hasher128 key = hasher_of("similar", options_);
  key.update(bytes_of(options.set_size)).update(bytes_of(options.prefiltered));
  add(key, wanted);
  add(key, known);
  const std::vector<uint32_t> found = cache_.get(key.finish(), wanted.views.size(), [&] {
    const std::vector<uint8_t> alike = clusters::find_similar(wanted.views, known.views, options,
                                                              data_hooks("comparing sequences", context_));
    return std::vector<uint32_t>(alike.begin(), alike.end());
  });
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != 0) result[wanted.owner[i]] = 1;
  return result;
}

}  // namespace pipeline::proteins
