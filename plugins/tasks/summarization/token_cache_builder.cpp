#include "plugins/tasks/summarization/token_cache.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <regex>
#include <utility>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/ordered_work.hpp"
#include "plugins/data/records/record_texts.hpp"
#include "plugins/data/stores/sample_writer.hpp"

namespace pipeline::tasks::summarization {
namespace {

using files::bytes_of;
using files::Hasher128;

constexpr size_t kBatchPairs = 256;
constexpr size_t kBatchBytes = size_t{1} << 20;

// The names that this task gives in a cache folder: token caches, tokenizers that were trained, what
// processes that were killed left of these, and what is known of sources.
const std::regex& cache_names() {
  static const std::regex names(
      R"(.+-[0-9a-f]{32}\.tokens(\.part|\.lock)?|tokenizer-[0-9a-f]{32}(\.tmp)?|source-[0-9a-f]{32}\.hash(\.lock)?)");
  return names;
}

using Batch = std::vector<Pair>;

struct EncodedBatch {
  std::vector<std::string> samples;
  TokenTotals totals{};
};

// The bytes of samples.
class SampleMaker {
 public:
  explicit SampleMaker(uint32_t vocabulary_size)
      : vocabulary_size_(vocabulary_size),
        token_bytes_(vocabulary_size <= uint32_t{std::numeric_limits<uint16_t>::max()} + 1 ? 2 : 4) {}

  // Throws DataError for a token that is not below the vocabulary's size.
  std::string make(const std::vector<int32_t>& document, const std::vector<int32_t>& summary,
                   const std::string& id) const {
    std::string sample;
    sample += bytes_of(TokenHead{static_cast<uint32_t>(document.size()),
                                 static_cast<uint32_t>(summary.size()), token_bytes_, 0});
    for (const auto* tokens : {&document, &summary}) add_tokens(*tokens, sample);
    return sample += id;
  }

 private:
  void add_tokens(const std::vector<int32_t>& tokens, std::string& sample) const {
    const auto outside = std::ranges::find_if(
        tokens, [&](int32_t token) { return token < 0 || static_cast<uint32_t>(token) >= vocabulary_size_; });
    if (outside != tokens.end()) {
      throw DataError("the tokenizer gave token " + std::to_string(*outside) + ", its vocabulary has " +
                      std::to_string(vocabulary_size_) + ": the tokenizer's files do not belong together");
    }
    if (token_bytes_ == 4) {
      sample += bytes_of(tokens);
      return;
    }
    const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
    sample += bytes_of(narrow);
  }

  uint32_t vocabulary_size_, token_bytes_;
};

// The lock is the caller's: nobody else writes it. Returns the summary.
std::string fill(stores::SampleWriter& writer, const TokenCacheSource& source, const TokenCacheHooks& hooks) {
  const SampleMaker maker(source.vocabulary_size);
  TokenTotals totals{};
  files::OrderedWork<Batch, EncodedBatch> work(
      hooks.threads,
      [&](Batch&& batch) {
        EncodedBatch encoded;
        for (const Pair& pair : batch) {
          const std::vector<int32_t> document = hooks.encode(pair.first), summary = hooks.encode(pair.second);
          encoded.totals.summaries += summary.empty() ? 0 : 1;
          encoded.totals.tokens += document.size() + summary.size();
          encoded.samples.push_back(maker.make(document, summary, pair.id));
        }
        return encoded;
      },
      [&](EncodedBatch&& encoded) {
        hooks.throw_if_cancelled();
        for (const std::string& sample : encoded.samples) writer.append(sample);
        totals.summaries += encoded.totals.summaries;
        totals.tokens += encoded.totals.tokens;
      });
  Batch batch;
  size_t bytes = 0;
  const auto add = [&](Pair&& pair, const std::string&) {
    if (!source.part.takes(pair.first)) return;
    bytes += pair.first.size() + pair.second.size();
    batch.push_back(std::move(pair));
    if (batch.size() < kBatchPairs && bytes < kBatchBytes) return;
    work.add(std::exchange(batch, {}));
    bytes = 0;
  };
  const auto on_block = [&](uint64_t bytes_done) {
    hooks.throw_if_cancelled();
    hooks.report(bytes_done, source.files.bytes);
  };
  SourceReport report;
  read_pairs(source.files, source.columns, add, report, {source.max_record_bytes, source.quotes, on_block});
  if (!batch.empty()) work.add(std::move(batch));
  work.finish();
  check_unchanged(source.files);
  const Columns& columns = source.columns;
  const std::vector<std::string> used{columns.first, columns.second, columns.id};
  const auto names = records::column_names(source.files.paths.front(), source.files.format, used,
                                           [&](uint64_t) { on_block(source.files.bytes); });
  if (const std::string note = records::note_of_unused(names, used); columns.second_required && !note.empty())
    report.files.front().report.notes.push_back(note);
  return std::string(bytes_of(totals)) + report.to_json();
}

}  // namespace

Hash128 token_cache_key(const TokenCacheSource& source) {
  Hasher128 hasher;
  const auto add = [&](const std::string& text) { hasher.update(std::to_string(text.size()) + ":" + text); };
  const Columns& c = source.columns;
  for (const auto& text : {c.first, c.second, c.id, source.part.key(), source.tokenizer}) add(text);
  for (const uint64_t number :
       {uint64_t{kTokens.version}, uint64_t{c.second_required}, uint64_t{c.id_required},
        source.max_record_bytes, static_cast<uint64_t>(source.quotes), uint64_t{source.vocabulary_size}}) {
    add(std::to_string(number));
  }
  add(source.files.hash.hex());
  return hasher.finish();
}

std::string token_cache_path(const std::string& folder, const TokenCacheSource& source, const Hash128& key) {
  return (std::filesystem::path(folder) / (source.files.stem() + "-" + key.hex() + ".tokens")).string();
}

TokenCache open_or_build_token_cache(const std::string& folder, const TokenCacheSource& source,
                                     const TokenCacheHooks& hooks) {
  const auto key = token_cache_key(source);
  const auto path = token_cache_path(folder, source, key);
  bool is_new = false;
  stores::SampleStore store = stores::open_or_fill(path, kTokens, key, "tokenizing " + source.files.named,
                                                   hooks, [&](stores::SampleWriter& writer) {
                                                     is_new = true;
                                                     return fill(writer, source, hooks);
                                                   });
  if (is_new) hooks.tell(files::remove_unused(folder, cache_names()));
  return TokenCache(std::move(store));
}

}  // namespace pipeline::tasks::summarization
