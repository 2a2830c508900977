#include "plugins/data/stores/token_store.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipeline::stores {
namespace {

using files::bytes_of;
using files::DataError;
using files::take;

struct Head {
  uint32_t parts, token_bytes;
};
// Totals over all samples. Behind these lie the drops and the notes.
struct Totals {
  uint64_t targets, tokens, records, used, drop_bytes;
};
static_assert(sizeof(Head) == 8 && sizeof(Totals) == 40);

void check_below(const std::vector<int32_t>& tokens, uint32_t vocabulary_size) {
  const auto outside = std::ranges::find_if(
      tokens, [&](int32_t token) { return token < 0 || static_cast<uint32_t>(token) >= vocabulary_size; });
  if (outside != tokens.end())
    throw DataError("the tokenizer gave token " + std::to_string(*outside) + ", its vocabulary has " +
                    std::to_string(vocabulary_size) + ": the tokenizer's files do not belong together");
}

}  // namespace

std::string pack_tokens(const std::vector<std::vector<int32_t>>& parts, std::string_view beside,
                        uint32_t vocabulary_size) {
  const bool is_narrow = vocabulary_size <= uint32_t{std::numeric_limits<uint16_t>::max()} + 1;
  std::string sample(bytes_of(Head{static_cast<uint32_t>(parts.size()), is_narrow ? 2u : 4u}));
  for (const std::vector<int32_t>& tokens : parts) sample += bytes_of(static_cast<uint32_t>(tokens.size()));
  for (const std::vector<int32_t>& tokens : parts) {
    check_below(tokens, vocabulary_size);
    if (is_narrow)
      sample += bytes_of(std::vector<uint16_t>(tokens.begin(), tokens.end()));
    else
      sample += bytes_of(tokens);
  }
  return sample += beside;
}

std::optional<TokenSample> unpack_tokens(std::string_view payload) {
  Head head;
  if (!take(payload, head) || (head.token_bytes != 2 && head.token_bytes != 4) ||
      head.parts > payload.size() / sizeof(uint32_t))
    return std::nullopt;
  TokenSample sample;
  std::string_view sizes = payload.substr(0, head.parts * sizeof(uint32_t));
  payload.remove_prefix(sizes.size());
  for (uint32_t size = 0; take(sizes, size);) {
    const uint64_t bytes = uint64_t{size} * head.token_bytes;
    if (bytes > payload.size()) return std::nullopt;
    sample.parts.emplace_back(payload.data(), size, head.token_bytes);
    payload.remove_prefix(bytes);
  }
  sample.beside = payload;
  return sample;
}

TokenStore::TokenStore(SampleStore store) : store_(std::move(store)) {
  std::string_view summary = store_.summary();
  Totals totals;
  if (!take(summary, totals) || totals.drop_bytes > summary.size()) refuse();
  targets_ = totals.targets;
  tokens_ = totals.tokens;
  report_ = {.records = totals.records,
             .used = totals.used,
             .drops = std::string(summary.substr(0, totals.drop_bytes)),
             .notes = std::string(summary.substr(totals.drop_bytes))};
}

void TokenStore::refuse() const {
  throw DataError(path() + ": what is in it does not fit together: remove it, and it is built again");
}

TokenSample TokenStore::operator[](uint64_t i) const {
  Sample bytes = store_[i];
  std::optional<TokenSample> sample = unpack_tokens(bytes.payload());
  if (!sample) refuse();
  sample->bytes = std::move(bytes);
  return *std::move(sample);
}

TokenStore open_or_fill_tokens(const SampleSource& source, const files::Hooks& hooks,
                               const std::function<TokenReport(const TokenSink& add)>& read) {
  return TokenStore(open_or_fill(source, kTokens, hooks, [&](SampleWriter& writer) {
    Totals totals{};
    const TokenReport report = read([&](std::string&& sample) {
      const std::optional<TokenSample> tokens = unpack_tokens(sample);
      totals.targets += tokens && tokens->has_target() ? 1 : 0;
      if (tokens)
        for (const TokenView& part : tokens->parts) totals.tokens += part.size();
      writer.append(sample);
    });
    totals.records = report.records;
    totals.used = report.used;
    totals.drop_bytes = report.drops.size();
    std::string summary(bytes_of(totals));
    return summary += report.drops + report.notes;
  }));
}

}  // namespace pipeline::stores
