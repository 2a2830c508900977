#include "plugins/tasks/summarization/data.hpp"

#include <pipeline/error.hpp>

#include <algorithm>

namespace pipeline::tasks::summarization {
namespace {

using stores::TokenView;

const TokenView& document_of(const TokenSample& sample) { return sample.parts.at(0); }
const TokenView& summary_of(const TokenSample& sample) { return sample.parts.at(1); }

struct Lengths {
  int64_t fixed, document, summary;  // fixed: start and separator
  bool whole_summary;                // so that it is followed by the end of text
};

Lengths lengths(const TokenSample& sample, const SequenceRules& rules) {
  const auto fixed = rules.fixed(), size = static_cast<int64_t>(summary_of(sample).size());
  const int64_t summary =
      std::min({size, rules.max_summary_tokens, std::max<int64_t>(rules.max_tokens - fixed, 0)});
  const int64_t room = std::max<int64_t>(rules.max_tokens - fixed - summary, 0);
  return {fixed, std::min(static_cast<int64_t>(document_of(sample).size()), room), summary, summary == size};
}

}  // namespace

stores::TokenReport read_samples(const PairSource& source, const Encoder& encoder, const files::Hooks& hooks,
                                 const stores::TokenSink& add) {
  return source.read_on_threads<std::string>(
      hooks,
      [&](const records::Pair& pair) {
        return stores::pack_tokens({encoder.encode(pair.first), encoder.encode(pair.second)}, pair.id,
                                   encoder.vocabulary_size);
      },
      add);
}

std::string SequenceRules::key() const {
  std::string key = concat(max_tokens, " ", max_summary_tokens, " ", end_of_text, " ", loss_on_all);
  for (const std::vector<int64_t>& tokens : {start, separator}) {
    key += ";";
    for (const int64_t token : tokens) key += concat(" ", token);
  }
  return key;
}

Sequence make_sequence(const TokenSample& sample, const SequenceRules& rules) {
  const Lengths length = lengths(sample, rules);
  Sequence result{.tokens = rules.start, .targets = {}};
  document_of(sample).append_to(result.tokens, static_cast<uint32_t>(length.document));
  result.tokens.insert(result.tokens.end(), rules.separator.begin(), rules.separator.end());
  summary_of(sample).append_to(result.tokens, static_cast<uint32_t>(length.summary));

  const size_t size = result.tokens.size();
  result.targets.assign(size, -1);
  if (summary_of(sample).size() == 0) return result;
  // The separator's last token predicts the summary's first.
  const size_t first = rules.loss_on_all ? 0 : static_cast<size_t>(length.fixed + length.document) - 1;
  for (size_t i = first; i + 1 < size; ++i) result.targets[i] = result.tokens[i + 1];
  if (length.whole_summary) result.targets[size - 1] = rules.end_of_text;
  return result;
}

std::vector<int64_t> make_prompt(const TokenSample& sample, const SequenceRules& rules, int64_t new_tokens) {
  const auto fixed = rules.fixed();
  const int64_t room = rules.max_tokens - fixed - new_tokens;
  std::vector<int64_t> prompt = rules.start;
  const int64_t kept = std::min(static_cast<int64_t>(document_of(sample).size()), room);
  document_of(sample).append_to(prompt, static_cast<uint32_t>(kept));
  prompt.insert(prompt.end(), rules.separator.begin(), rules.separator.end());
  return prompt;
}

int64_t longest_writing(int64_t max_tokens, int64_t max_summary_tokens, int64_t separator_tokens) {
  const int64_t room = max_tokens - separator_tokens,
                learnt = std::max<int64_t>(room - max_summary_tokens, 1);
  return room - (learnt + 1) / 2;
}

}  // namespace pipeline::tasks::summarization
