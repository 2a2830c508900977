#include "generate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <ATen/core/Tensor.h>

#include <pipeline/numbers.hpp>

namespace pipeline::generation {
namespace {

uint64_t mix(uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

int64_t likeliest(std::span<const float> logits) { return std::ranges::max_element(logits) - logits.begin(); }

using Sequences = std::vector<std::vector<int64_t>>;

// Rows of logits, in host memory.
class Rows {
 public:
  explicit Rows(const at::Tensor& logits)
      : logits_(logits.to(at::kCPU).contiguous()), tops_(logits_.amax(1)) {}
  std::span<const float> operator()(int64_t first, int64_t count = 1) const {
    const int64_t width = logits_.size(1);
    return {logits_.const_data_ptr<float>() + first * width, static_cast<size_t>(count * width)};
  }

  // The largest of these rows; NaN if any of them is.
  float top(int64_t first, int64_t count = 1) const {
    const std::span<const float> tops(tops_.const_data_ptr<float>() + first, static_cast<size_t>(count));
    return has_nan(tops) ? std::numeric_limits<float>::quiet_NaN() : std::ranges::max(tops);
  }
  int64_t likeliest(int64_t row) const {
    const std::span<const float> all = (*this)(row);
    return std::ranges::find(all, top(row)) - all.begin();
  }

 private:
  at::Tensor logits_, tops_;
};

// Whether a prompt's logits, the largest of which is `top`, can be used. An infinite one makes all
// probabilities NaN.
bool can_go_on(float top, size_t prompt, const GenerationOptions& options) {
  if (std::isfinite(top)) return true;
  if (!options.on_nan) fail("the model's logits are nan, must be numbers: are its weights ruined?");
  options.on_nan(prompt);
  return false;
}

Sequences sample(Decoder& decoder, const std::vector<Prompt>& prompts, const GenerationOptions& options) {
  Sequences results(prompts.size());
  std::vector<int64_t> active;
  for (size_t p = 0; p < prompts.size(); ++p) active.push_back(static_cast<int64_t>(p));
  Rows logits(decoder.prompt_logits());
  for (int64_t step = 0; step < options.max_new_tokens; ++step) {
    if (options.on_step) options.on_step();
    std::vector<int64_t> still_active, tokens;
    for (size_t row = 0; row < active.size(); ++row) {
      const int64_t p = active[row];
      const auto place = static_cast<int64_t>(row);
      if (!can_go_on(logits.top(place), static_cast<size_t>(p), options)) continue;
      const double draw =
          uniform(options.seed, prompts[static_cast<size_t>(p)].id, static_cast<uint64_t>(step));
      const int64_t token = options.sampling.temperature == 0
                                ? logits.likeliest(place)
                                : choose_token(logits(place), options.sampling, draw);
      if (options.ends(token)) continue;
      results[static_cast<size_t>(p)].push_back(token);
      if (options.on_token && !options.on_token(token)) return results;
      still_active.push_back(p);
      tokens.push_back(token);
    }
    active = std::move(still_active);
    if (active.empty() || step + 1 == options.max_new_tokens) break;
    logits = Rows(decoder.append(active, tokens));
  }
  return results;
}

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

// Beam search for one prompt, as transformers does it with early_stopping = False. The caller runs the model:
//
//   BeamSearch search(options);
//   while (!search.done()) search.advance(logits of search's beams);   // first the prompt's, one row
class BeamSearch {
 public:
  explicit BeamSearch(const GenerationOptions& options) : options_(options), running_{{{}, 0, 0}} {}

  struct Beam {
    std::vector<int64_t> tokens;
    double score;    // sum of log probabilities; of finished beams divided by length^penalty
    int64_t parent;  // which beam of the step before it continues
  };

  bool done() const { return done_; }
  // Likeliest first; the last token of each is new.
  const std::vector<Beam>& running() const { return running_; }

  // logits: (running().size(), vocab) row by row.
  void advance(std::span<const float> logits);

  void end() { done_ = true; }

  // The best finished beam, without the end-of-text token; the best running one when none has finished.
  std::vector<int64_t> best() const;

 private:
  double penalized(double score, size_t length) const;

  const GenerationOptions& options_;
  std::vector<Beam> running_;
  std::vector<Beam> finished_;  // best first, at most `beams`
  bool done_ = false;
};

double BeamSearch::penalized(double score, size_t length) const {
  return score / std::pow(static_cast<double>(length), options_.length_penalty);
}

void BeamSearch::advance(std::span<const float> logits) {
  const size_t vocab = logits.size() / running_.size();
  // (1 + ways to end) candidates for each beam, so that enough are left to go on with; as transformers
  // counts.
  const size_t ways = std::max<size_t>(1, options_.eos_token_ids.size());
  const size_t wanted = std::min((1 + ways) * static_cast<size_t>(options_.beams), logits.size());
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
    const bool ends = options_.ends(c.token);
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
  // The best running beam is taken to end at its present length; when even that cannot displace the worst
  // finished one, stop.
  done_ = finished_.size() == beams && penalized(running_.front().score, length) <= finished_.back().score;
}

std::vector<int64_t> BeamSearch::best() const {
  return finished_.empty() ? running_.front().tokens : finished_.front().tokens;
}

Sequences search_beams(Decoder& decoder, const std::vector<Prompt>& prompts,
                       const GenerationOptions& options) {
  std::vector<BeamSearch> searches(prompts.size(), BeamSearch(options));
  Rows logits(decoder.prompt_logits());
  const auto advance = [&](size_t p, int64_t first, int64_t beams) {
    can_go_on(logits.top(first, beams), p, options) ? searches[p].advance(logits(first, beams))
                                                    : searches[p].end();
  };
  for (size_t p = 0; p < prompts.size(); ++p) advance(p, static_cast<int64_t>(p), 1);
  while (true) {
    std::vector<int64_t> slots, tokens;
    for (size_t p = 0; p < prompts.size(); ++p) {
      if (searches[p].done()) continue;
      std::vector<int64_t> parents;
      for (const BeamSearch::Beam& beam : searches[p].running()) {
        slots.push_back(static_cast<int64_t>(p) * options.beams + static_cast<int64_t>(parents.size()));
        tokens.push_back(beam.tokens.back());
        parents.push_back(beam.parent);
      }
      parents.resize(static_cast<size_t>(options.beams), 0);  // slots without a beam: fewer tokens than beams
      decoder.reorder(static_cast<int64_t>(p), parents);
    }
    if (slots.empty()) break;
    if (options.on_step) options.on_step();
    logits = Rows(decoder.append(slots, tokens));
    int64_t row = 0;
    for (size_t p = 0; p < searches.size(); ++p) {
      if (searches[p].done()) continue;
      const auto beams = static_cast<int64_t>(searches[p].running().size());
      advance(p, row, beams);
      row += beams;
    }
  }
  Sequences results;
  for (const BeamSearch& search : searches) results.push_back(search.best());
  return results;
}

}  // namespace

double uniform(uint64_t seed, uint64_t sample_id, uint64_t step) {
  return static_cast<double>(mix(mix(mix(seed) ^ sample_id) ^ step) >> 11) * 0x1p-53;
}

int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, double draw) {
  if (options.temperature == 0) return likeliest(logits);
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order.size()) {
    std::nth_element(order.begin(), order.begin() + options.top_k, order.end(), likelier);
    order.resize(static_cast<size_t>(options.top_k));
  }
  const double top = logits[static_cast<size_t>(likeliest(logits))];
  const auto weight = [&](int64_t token) {
    return std::exp((logits[static_cast<size_t>(token)] - top) / options.temperature);
  };
  double total = 0;
  for (const int64_t token : order) total += weight(token);
  // A heap, as the likeliest few are mostly enough: the others need not be in order.
  const auto less_likely = [&](int64_t a, int64_t b) { return likelier(b, a); };
  std::ranges::make_heap(order, less_likely);
  std::vector<int64_t> likeliest_first;
  const auto next = [&] {
    std::ranges::pop_heap(order, less_likely);
    likeliest_first.push_back(order.back());
    order.pop_back();
    return weight(likeliest_first.back());
  };
  if (options.top_p < 1) {
    double sum = 0;
    while (!order.empty() && (likeliest_first.empty() || sum < options.top_p * total)) sum += next();
    total = sum;
    order.clear();
  }
  double left = draw * total;
  for (size_t i = 0; i < likeliest_first.size() || !order.empty(); ++i) {
    left -= i < likeliest_first.size() ? weight(likeliest_first[i]) : next();
    if (left < 0) return likeliest_first[i];
  }
  return likeliest_first.back();  // the sum was rounded up
}

Sequences generate(const DecoderModel& model, const std::vector<Prompt>& prompts,
                   const GenerationOptions& options) {
  if (prompts.empty() || options.max_new_tokens <= 0) return Sequences(prompts.size());
  TORCH_CHECK(options.beams >= 1, "beams = ", options.beams, ": must be at least 1");
  Sequences tokens;
  for (const Prompt& prompt : prompts) tokens.push_back(prompt.tokens);
  Decoder decoder(model, tokens, options.beams, options.max_new_tokens, options.compute);
  return options.beams == 1 ? sample(decoder, prompts, options) : search_beams(decoder, prompts, options);
}

}  // namespace pipeline::generation
