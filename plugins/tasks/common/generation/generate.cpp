#include "generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>

#include "beam_search.hpp"

namespace pipeline::generation {
namespace {

uint64_t mix(uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

int64_t likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

using Sequences = std::vector<std::vector<int64_t>>;

// A row of logits, in host memory.
class Rows {
 public:
  explicit Rows(const at::Tensor& logits) : logits_(logits.to(at::kCPU).contiguous()) {}
  std::span<const float> operator()(int64_t first, int64_t count = 1) const {
    const int64_t width = logits_.size(1);
    return {logits_.const_data_ptr<float>() + first * width, static_cast<size_t>(count * width)};
  }

 private:
  at::Tensor logits_;
};

Sequences sample(Decoder& decoder, const std::vector<Prompt>& prompts, const GenerationOptions& options) {
  Sequences results(prompts.size());
  std::vector<int64_t> active;
  for (size_t p = 0; p < prompts.size(); ++p) active.push_back(static_cast<int64_t>(p));
  Rows logits(decoder.prompt_logits());
  for (int64_t step = 0; step < options.max_new_tokens; ++step) {
    std::vector<int64_t> still_active, tokens;
    for (size_t row = 0; row < active.size(); ++row) {
      const int64_t p = active[row];
      const double draw =
          uniform(options.seed, prompts[static_cast<size_t>(p)].id, static_cast<uint64_t>(step));
      const int64_t token = choose_token(logits(static_cast<int64_t>(row)), options.sampling, draw);
      if (token == options.eos_token_id) continue;
      results[static_cast<size_t>(p)].push_back(token);
      still_active.push_back(p);
      tokens.push_back(token);
    }
    active = std::move(still_active);
    if (active.empty() || step + 1 == options.max_new_tokens) break;
    logits = Rows(decoder.append(active, tokens));
  }
  return results;
}

Sequences search_beams(Decoder& decoder, const std::vector<Prompt>& prompts,
                       const GenerationOptions& options) {
  const BeamOptions beam_options{options.beams, options.length_penalty, options.max_new_tokens,
                                 options.eos_token_id};
  std::vector<BeamSearch> searches(prompts.size(), BeamSearch(beam_options));
  Rows logits(decoder.prompt_logits());
  for (size_t p = 0; p < prompts.size(); ++p) searches[p].advance(logits(static_cast<int64_t>(p)));
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
    logits = Rows(decoder.append(slots, tokens));
    int64_t row = 0;
    for (BeamSearch& search : searches) {
      if (search.done()) continue;
      const auto beams = static_cast<int64_t>(search.running().size());
      search.advance(logits(row, beams));
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
  std::sort(order.begin(), order.end(), likelier);

  const double top = logits[static_cast<size_t>(order.front())];
  std::vector<double> weights;
  double total = 0;
  for (const int64_t token : order) {
    weights.push_back(std::exp((logits[static_cast<size_t>(token)] - top) / options.temperature));
    total += weights.back();
  }
  if (options.top_p < 1) {
    double sum = 0;
    size_t kept = 0;
    while (kept < weights.size() && (kept == 0 || sum < options.top_p * total)) sum += weights[kept++];
    weights.resize(kept);
    total = sum;
  }
  double left = draw * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[weights.size() - 1];  // the sum was rounded up
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
