#include "plugins/tasks/protein/clusters/clusters.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/clusters/disjoint_sets.hpp"
#include "plugins/tasks/protein/clusters/prefilter.hpp"
#include "plugins/tasks/protein/clusters/score_batch.hpp"
#include "plugins/tasks/protein/clusters/sequence_set.hpp"
#include "plugins/tasks/protein/clusters/similar.hpp"
#include "plugins/tasks/protein/clusters/work.hpp"

namespace pipeline::protein {
namespace {

// Joins the similar ones of a set of distinct sequences. Pairs that are joined already are not looked at
// again, which saves work and changes nothing: a set's connected parts do not depend on the order in which
// its pairs are found.
class Linkage {
 public:
  Linkage(const SequenceSet& set, const ClusterOptions& options, const files::Hooks& hooks)
      : set_(set), sequences_(set.distinct), options_(options), hooks_(hooks), sets_(set.distinct.size()) {}

  void run() {
    if (sequences_.size() > options_.exact_up_to) {
      link_candidates();
    } else {
      link_all();
    }
    link_contained();
  }

  // The smallest number of the cluster that the sequence is in.
  uint32_t first(uint32_t sequence) { return sets_.first(sequence); }

 private:
  void link(uint32_t a, uint32_t b, int score) {
    const Letters &first = sequences_[a], &second = sequences_[b];
    if (!is_significant(first, second, score, sequences_.size(), options_) || sets_.joined(a, b)) return;
    if (is_alike(first, second, options_)) sets_.join(a, b);
  }

  // Every pair once: sequences sorted by length, each lot of neighbours with all that are not behind it.
  void link_all() {
    const std::vector<uint32_t> order = set_.by_length();
    const size_t lots = (order.size() + ScoreBatch::kLanes - 1) / ScoreBatch::kLanes;
    uint64_t residues = 0, cells = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      residues += sequences_[order[i]].size();
      if ((i + 1) % ScoreBatch::kLanes == 0 || i + 1 == order.size())
        cells += residues * sequences_[order[i]].size();
    }
    Work work(hooks_, cells);
    work.run(lots, [&](size_t item) {
      thread_local ScoreBatch batch;
      const size_t first = (lots - 1 - item) * ScoreBatch::kLanes;  // most work first: threads end together
      const size_t end = std::min(first + ScoreBatch::kLanes, order.size());
      std::vector<LetterView> targets;
      for (size_t i = first; i < end; ++i) targets.emplace_back(sequences_[order[i]]);
      batch.set_targets(targets);
      for (size_t query = 0; query < end; ++query) {
        const size_t begin = std::max(first, query + 1);
        const auto joined = [&](uint32_t other) { return sets_.joined(order[query], other); };
        if (!std::all_of(order.begin() + begin, order.begin() + end, joined)) {
          const ScoreBatch::Scores scores = batch.scores(sequences_[order[query]]);
          for (size_t i = begin; i < end; ++i) link(order[query], order[i], scores[i - first]);
        }
        work.advance(sequences_[order[query]].size() * targets.back().size());
      }
    });
  }

  void link_candidates() {
    const Prefilter prefilter(sequences_);
    Work work(hooks_, sequences_.size());
    work.run(sequences_.size(), [&](size_t item) {
      thread_local ScoreBatch batch;
      const auto query = static_cast<uint32_t>(item);
      std::vector<uint32_t> numbers;
      std::vector<LetterView> targets;
      const auto score_lot = [&] {
        batch.set_targets(targets);
        const ScoreBatch::Scores scores = batch.scores(sequences_[query]);
        for (size_t lane = 0; lane < numbers.size(); ++lane) link(numbers[lane], query, scores[lane]);
        numbers.clear();
        targets.clear();
        work.advance(0);
      };
      for (const uint32_t candidate : prefilter.candidates(query)) {
        if (sets_.joined(candidate, query)) continue;
        numbers.push_back(candidate);
        targets.emplace_back(sequences_[candidate]);
        if (numbers.size() == ScoreBatch::kLanes) score_lot();
      }
      if (!numbers.empty()) score_lot();
      work.advance(1);
    });
  }

  void link_contained() {
    size_t longest = 0;
    for (const Letters& sequence : sequences_) longest = std::max(longest, sequence.size());
    std::vector<bool> is_short(sequences_.size());
    for (size_t i = 0; i < sequences_.size(); ++i) {
      int score = 0;
      for (const uint8_t letter : sequences_[i]) score += kSubstitution[letter][letter];
      is_short[i] =
          score < significant_score(sequences_[i].size(), longest, sequences_.size(), options_.evalue);
    }
    const auto containing = find_containing(sequences_, is_short);
    for (uint32_t i = 0; i < sequences_.size(); ++i) {
      if (containing[i]) sets_.join(i, *containing[i]);
    }
  }

  const SequenceSet& set_;
  const std::vector<Letters>& sequences_;
  const ClusterOptions& options_;
  const files::Hooks& hooks_;
  DisjointSets sets_;
};

}  // namespace

std::vector<uint32_t> cluster_sequences(std::span<const std::string_view> sequences,
                                        const ClusterOptions& options, const files::Hooks& hooks) {
  check_options(options);
  SequenceSet set(sequences);
  Linkage linkage(set, options, hooks);
  linkage.run();
  std::vector<uint32_t> clusters(set.distinct.size());
  uint32_t count = 0;
  for (uint32_t i = 0; i < clusters.size(); ++i) {
    const uint32_t first = linkage.first(i);
    clusters[i] = first == i ? count++ : clusters[first];  // a cluster's first number comes before its others
  }
  for (uint32_t& number : set.number_of) number = clusters[number];
  return std::move(set.number_of);
}

std::vector<uint32_t> assign_folds(std::span<const uint64_t> cluster_residues, uint32_t folds) {
  if (folds == 0) throw files::DataError("clusters cannot be divided into 0 folds: ask for at least 1");
  std::vector<size_t> order(cluster_residues.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return cluster_residues[a] > cluster_residues[b]; });

  using Fold = std::pair<uint64_t, uint32_t>;  // residues, number
  std::priority_queue<Fold, std::vector<Fold>, std::greater<>> emptiest;
  for (uint32_t fold = 0; fold < folds; ++fold) emptiest.emplace(0, fold);
  std::vector<uint32_t> result(cluster_residues.size());
  for (const size_t cluster : order) {
    const auto [residues, fold] = emptiest.top();
    emptiest.pop();
    result[cluster] = fold;
    emptiest.emplace(residues + cluster_residues[cluster], fold);
  }
  return result;
}

}  // namespace pipeline::protein
