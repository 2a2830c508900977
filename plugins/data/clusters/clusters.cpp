#include "plugins/data/clusters/clusters.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <queue>
#include <set>

#include "plugins/data/clusters/local_alignment.hpp"
#include "plugins/data/clusters/sequence_set.hpp"
#include "plugins/data/files/ordered_work.hpp"

namespace pipeline::clusters {
namespace {

// Items of work divided among threads, with progress and cancellation.
class Work {
 public:
  Work(const files::Hooks& hooks, uint64_t total) : hooks_(hooks), total_(total) {}

  // Calls body(item) for the items 0 to count - 1, each on one of the threads. Waits for all. The first
  // exception ends the work and is thrown on.
  template <typename Body>
  void run(size_t count, const Body& body) {
    constexpr size_t kAhead = 1024;  // nobody waits for an item that takes much longer than others
    const auto work = [&](size_t item) { return body(item), true; };
    files::run_in_order<bool>(
        count, hooks_.threads, work, [](size_t, bool&&) {}, [this] { look(); }, kAhead);
  }

  // Called within items, often: `units` of the total are done. Throws files::Cancelled if the work is to end.
  void advance(uint64_t units) {
    done_ += units;
    if (stop_) throw files::Cancelled();
  }

 private:
  void look() {
    constexpr std::chrono::milliseconds kEvery(100);
    if (std::chrono::steady_clock::now() - looked_ < kEvery) return;
    looked_ = std::chrono::steady_clock::now();
    try {
      hooks_.throw_if_cancelled();
      hooks_.report(done_, total_);
    } catch (...) {
      stop_ = true;  // ends the items that are at work
      throw;
    }
  }

  const files::Hooks& hooks_;
  const uint64_t total_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false;
  std::chrono::steady_clock::time_point looked_{};  // the first look comes at once
};

// Two sequences are similar if both functions say so. The first goes by the score of their best local
// alignment, where `set_size` distinct sequences are compared with each other; the second aligns them again.
bool is_significant(LetterView a, LetterView b, int score, size_t set_size, const ClusterOptions& options) {
  return score >= significant_score(a.size(), b.size(), set_size, options.evalue);
}

bool is_alike(LetterView a, LetterView b, const ClusterOptions& options) {
  const LocalAlignment alignment = align_locally(a, b);
  const auto shorter = static_cast<double>(std::min(a.size(), b.size()));
  return alignment.identities >= options.identity * alignment.columns &&
         alignment.columns >= options.coverage * shorter;
}

// This thread's batch, with the sequences that `targets` numbers as its targets.
ScoreBatch& batch_of(const std::vector<Letters>& sequences, std::span<const uint32_t> targets) {
  thread_local ScoreBatch batch;
  std::vector<LetterView> views;
  for (const uint32_t target : targets) views.emplace_back(sequences[target]);
  batch.set_targets(views);
  return batch;
}

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
      const size_t first = (lots - 1 - item) * ScoreBatch::kLanes;  // most work first: threads end together
      const size_t end = std::min(first + ScoreBatch::kLanes, order.size());
      ScoreBatch& batch = batch_of(sequences_, std::span(order).subspan(first, end - first));
      for (size_t query = 0; query < end; ++query) {
        const size_t begin = std::max(first, query + 1);
        const auto joined = [&](uint32_t other) { return sets_.joined(order[query], other); };
        if (!std::all_of(order.begin() + begin, order.begin() + end, joined)) {
          const ScoreBatch::Scores scores = batch.scores(sequences_[order[query]]);
          for (size_t i = begin; i < end; ++i) link(order[query], order[i], scores[i - first]);
        }
        work.advance(sequences_[order[query]].size() * sequences_[order[end - 1]].size());
      }
    });
  }

  void link_candidates() {
    const Prefilter prefilter(sequences_);
    Work work(hooks_, sequences_.size());
    work.run(sequences_.size(), [&](size_t item) {
      const auto query = static_cast<uint32_t>(item);
      std::vector<uint32_t> lot;
      const auto score_lot = [&] {
        const ScoreBatch::Scores scores = batch_of(sequences_, lot).scores(sequences_[query]);
        for (size_t lane = 0; lane < lot.size(); ++lane) link(lot[lane], query, scores[lane]);
        lot.clear();
        work.advance(0);
      };
      for (const uint32_t candidate : prefilter.candidates(query)) {
        if (sets_.joined(candidate, query)) continue;
        lot.push_back(candidate);
        if (lot.size() == ScoreBatch::kLanes) score_lot();
      }
      if (!lot.empty()) score_lot();
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

class Search {
 public:
  Search(const SequenceSet& queries, const SequenceSet& references, const SimilarOptions& options,
         const files::Hooks& hooks)
      : queries_(queries.distinct),
        references_(references.distinct),
        options_(options),
        hooks_(hooks),
        found_(queries_.size()) {
    const std::set<Letters> equal(references_.begin(), references_.end());
    for (const uint32_t query : queries.by_length()) {
      found_[query] = equal.contains(queries_[query]) ? 1 : 0;
      if (found_[query] == 0) order_.push_back(query);
    }
  }

  std::vector<uint8_t> run() {
    if (options_.prefiltered) {
      align_candidates();
    } else {
      align_all();
    }
    return std::move(found_);
  }

 private:
  bool similar(const Letters& a, const Letters& b, int score) const {
    return is_significant(a, b, score, options_.set_size, options_.similar) &&
           is_alike(a, b, options_.similar);
  }

  // A lot of queries of similar length with each reference. Each lot belongs to one thread, so its places in
  // found_ do, too.
  void align_all() {
    const size_t lots = (order_.size() + ScoreBatch::kLanes - 1) / ScoreBatch::kLanes;
    Work work(hooks_, lots * references_.size());
    work.run(lots, [&](size_t item) {
      const size_t first = (lots - 1 - item) * ScoreBatch::kLanes;  // the most work first
      const auto lot = std::span(order_).subspan(first, std::min(ScoreBatch::kLanes, order_.size() - first));
      ScoreBatch& batch = batch_of(queries_, lot);
      size_t left = lot.size();
      for (const Letters& reference : references_) {
        const ScoreBatch::Scores scores = left > 0 ? batch.scores(reference) : ScoreBatch::Scores{};
        for (size_t lane = 0; left > 0 && lane < lot.size(); ++lane) {
          uint8_t& found = found_[lot[lane]];
          if (found != 0 || !similar(queries_[lot[lane]], reference, scores[lane])) continue;
          found = 1;
          --left;
        }
        work.advance(1);
      }
    });
  }

  void align_candidates() {
    std::vector<Letters> all = references_;  // before the queries: a query's candidates lie before it
    for (const uint32_t query : order_) all.push_back(queries_[query]);
    const Prefilter prefilter(all);
    Work work(hooks_, order_.size());
    work.run(order_.size(), [&](size_t item) {
      const Letters& query = queries_[order_[item]];
      std::vector<uint32_t> candidates =
          prefilter.candidates(static_cast<uint32_t>(references_.size() + item));
      std::erase_if(candidates, [&](uint32_t candidate) { return candidate >= references_.size(); });
      uint8_t& found = found_[order_[item]];
      for (size_t begin = 0; begin < candidates.size() && found == 0; begin += ScoreBatch::kLanes) {
        const auto lot =
            std::span(candidates).subspan(begin, std::min(ScoreBatch::kLanes, candidates.size() - begin));
        const ScoreBatch::Scores scores = batch_of(all, lot).scores(query);
        for (size_t lane = 0; lane < lot.size() && found == 0; ++lane)
          found = similar(query, all[lot[lane]], scores[lane]) ? 1 : 0;
        work.advance(0);
      }
      work.advance(1);
    });
  }

  const std::vector<Letters>&queries_, &references_;
  const SimilarOptions& options_;
  const files::Hooks& hooks_;
  std::vector<uint8_t> found_;
  std::vector<uint32_t> order_;  // indices of the queries that have to be aligned, by length
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

std::vector<uint8_t> find_similar(std::span<const std::string_view> queries,
                                  std::span<const std::string_view> references, const SimilarOptions& options,
                                  const files::Hooks& hooks) {
  check_options(options.similar);
  const SequenceSet wanted(queries), known(references);
  const std::vector<uint8_t> found = Search(wanted, known, options, hooks).run();
  std::vector<uint8_t> result;
  for (const uint32_t number : wanted.number_of) result.push_back(found[number]);
  return result;
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

}  // namespace pipeline::clusters
