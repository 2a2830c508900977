#include "plugins/tasks/protein/clusters/similar.hpp"

#include <algorithm>
#include <set>

#include "plugins/tasks/protein/clusters/local_alignment.hpp"
#include "plugins/tasks/protein/clusters/prefilter.hpp"
#include "plugins/tasks/protein/clusters/score_batch.hpp"
#include "plugins/tasks/protein/clusters/sequence_set.hpp"
#include "plugins/tasks/protein/clusters/work.hpp"

namespace pipeline::protein {

namespace {

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
      thread_local ScoreBatch batch;
      const size_t first = (lots - 1 - item) * ScoreBatch::kLanes,
                   end = std::min(first + ScoreBatch::kLanes, order_.size());  // the most work first
      std::vector<LetterView> targets;
      for (size_t i = first; i < end; ++i) targets.emplace_back(queries_[order_[i]]);
      batch.set_targets(targets);
      size_t left = targets.size();
      for (const Letters& reference : references_) {
        const ScoreBatch::Scores scores = left > 0 ? batch.scores(reference) : ScoreBatch::Scores{};
        for (size_t lane = 0; left > 0 && lane < targets.size(); ++lane) {
          uint8_t& found = found_[order_[first + lane]];
          if (found != 0 || !similar(queries_[order_[first + lane]], reference, scores[lane])) continue;
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
      thread_local ScoreBatch batch;
      const Letters& query = queries_[order_[item]];
      std::vector<uint32_t> candidates =
          prefilter.candidates(static_cast<uint32_t>(references_.size() + item));
      std::erase_if(candidates, [&](uint32_t candidate) { return candidate >= references_.size(); });
      uint8_t& found = found_[order_[item]];
      for (size_t begin = 0; begin < candidates.size() && found == 0; begin += ScoreBatch::kLanes) {
        const size_t end = std::min(begin + ScoreBatch::kLanes, candidates.size());
        std::vector<LetterView> targets;
        for (size_t i = begin; i < end; ++i) targets.emplace_back(all[candidates[i]]);
        batch.set_targets(targets);
        const ScoreBatch::Scores scores = batch.scores(query);
        for (size_t i = begin; i < end && found == 0; ++i)
          found = similar(query, all[candidates[i]], scores[i - begin]) ? 1 : 0;
        work.advance(0);
      }
      work.advance(1);
    });
  }

  const std::vector<Letters>&queries_, &references_;
  const SimilarOptions& options_;
  const files::Hooks& hooks_;
  std::vector<uint8_t> found_;
  std::vector<uint32_t> order_;  // of the queries that have to be aligned, by length
};

}  // namespace

bool is_significant(LetterView a, LetterView b, int score, size_t set_size, const ClusterOptions& options) {
  return score >= significant_score(a.size(), b.size(), set_size, options.evalue);
}

bool is_alike(LetterView a, LetterView b, const ClusterOptions& options) {
  const LocalAlignment alignment = align_locally(a, b);
  const auto shorter = static_cast<double>(std::min(a.size(), b.size()));
  return alignment.identities >= options.identity * alignment.columns &&
         alignment.columns >= options.coverage * shorter;
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

}  // namespace pipeline::protein
