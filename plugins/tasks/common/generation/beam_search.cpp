#include "beam_search.hpp"

#include <algorithm>
#include <cmath>

namespace pipeline::generation {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float x : logits) total += std::exp(x - top);
  return top + std::log(total);
}

struct Candidate {
  double score;
  int64_t beam, token;
  bool operator<(const Candidate& other) const {  // better first; equal scores go by beam and token
    if (score != other.score) return score > other.score;
    return beam != other.beam ? beam < other.beam : token < other.token;
  }
};

}  // namespace

double BeamSearch::penalized(double score, size_t length) const {
  return score / std::pow(static_cast<double>(length), options_.length_penalty);
}

void BeamSearch::advance(std::span<const float> logits) {
  const size_t vocab = logits.size() / running_.size();
  // Twice as many candidates as beams: at most one of each beam's ends the text, so enough are left to go on
  // with.
  const size_t wanted = std::min(static_cast<size_t>(2 * options_.beams), logits.size());
  std::vector<Candidate> candidates;
  for (size_t b = 0; b < running_.size(); ++b) {
    const std::span<const float> row = logits.subspan(b * vocab, vocab);
    const double offset = running_[b].score - log_sum_exp(row);
    for (size_t t = 0; t < vocab; ++t) {
      const Candidate candidate{offset + row[t], static_cast<int64_t>(b), static_cast<int64_t>(t)};
      if (candidates.size() == wanted && !(candidate < candidates.back())) continue;
      candidates.insert(std::upper_bound(candidates.begin(), candidates.end(), candidate), candidate);
      if (candidates.size() > wanted) candidates.pop_back();
    }
  }

  const size_t length = running_.front().tokens.size() + 1;
  const bool last = static_cast<int64_t>(length) == options_.max_new_tokens;
  const auto beams = static_cast<size_t>(options_.beams);
  std::vector<Beam> next;
  for (size_t rank = 0; rank < candidates.size(); ++rank) {
    const Candidate& c = candidates[rank];
    const bool ends = c.token == options_.eos_token_id;
    if (!ends && !last && next.size() == beams) continue;
    Beam beam{running_[static_cast<size_t>(c.beam)].tokens, c.score, c.beam};
    if (!ends) beam.tokens.push_back(c.token);
    if (!ends && !last) {
      next.push_back(std::move(beam));
    } else if (rank < beams) {
      beam.score = penalized(c.score, length);
      const auto better = [](const Beam& a, const Beam& b) { return a.score > b.score; };
      finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), beam, better), std::move(beam));
      if (finished_.size() > beams) finished_.pop_back();
    }
  }
  if (next.empty()) {
    done_ = true;
    return;
  }
  running_ = std::move(next);
  // What is still running is taken to end at its present length; when even that cannot displace the worst
  // finished one, stop.
  done_ = finished_.size() == beams && penalized(running_.front().score, length) <= finished_.back().score;
}

std::vector<int64_t> BeamSearch::best() const {
  return finished_.empty() ? running_.front().tokens : finished_.front().tokens;
}

}  // namespace pipeline::generation
