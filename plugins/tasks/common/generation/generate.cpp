#include "generate.hpp"

#include <ATen/ATen.h>

#include "beam_search.hpp"

namespace pipeline::generation {
namespace {

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
