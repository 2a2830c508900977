#include "plugins/tasks/summarization/corpus.hpp"

#include <algorithm>
#include <sstream>

#include "files/data_errors.hpp"
#include "plugins/tasks/summarization/token_cache.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::summarization {
namespace {

namespace fs = std::filesystem;

Columns columns_of(const DataConfig& data, Split split) {
  return {.first = data.document_column,
          .second = data.summary_column,
          .id = data.id_column.empty() ? "id" : data.id_column,
          .second_required = split != Split::kTest,
          .id_required = !data.id_column.empty()};
}

void say_lines(const Context& context, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) context.warn(line);
}

std::string cache_folder(const Context& context) { return std::string(view(context.run().cache_dir)); }

using Sources = sources::SplitOptions::Sources;

TokenCacheSource source_of(const DataConfig& data, Split split, const std::string& named,
                           const files::Part& part, const Context& context) {
  const std::string what = "reading " + fs::path(named).filename().string();
  const files::Hooks hooks{
      .progress = [&](uint64_t done, uint64_t total) { context.progress(what, done, total); },
      .cancelled = [&] { return context.cancelled(); }};
  return {.files = sources::find_and_hash(named, cache_folder(context), hooks),
          .columns = columns_of(data, split),
          .max_record_bytes = static_cast<uint64_t>(data.max_record_bytes),
          .quotes = records::quotes_named(data.quotes),
          .part = part};
}

// The tokenizer that the training files give.
tokenizer::TokenizerPtr trained_tokenizer(std::vector<TokenCacheSource> all, int64_t size,
                                          const Context& context) {
  std::string key, what;
  uint64_t bytes = 0;
  for (TokenCacheSource& source : all) {
    source.tokenizer = "trained/2 " + std::to_string(size);
    source.vocabulary_size = static_cast<uint32_t>(size);
    key += token_cache_key(source).hex();
    what += (what.empty() ? "" : ", ") + source.files.name();
    bytes += source.files.bytes;
  }
  const auto each = [&](const auto& text, const auto& read) {
    uint64_t before = 0;
    for (const TokenCacheSource& source : all) {
      SourceReport report;
      records::read_pairs(source.files, source.columns,
                          [&](Pair&& pair, const std::string&) {
                            if (!source.part.takes(pair.first)) return;
                            text(pair.first);
                            text(pair.second);
                          },
                          report,
                          {.max_record_bytes = source.max_record_bytes,
                           .quotes = source.quotes,
                           .on_block = [&](uint64_t done) { read(before + done); }});
      sources::check_unchanged(source.files);
      before += source.files.bytes;
    }
  };
  return tokenizer::trained_tokenizer(
      {.key = all.size() == 1 ? key : files::hash128(key).hex(), .bytes = bytes, .what = what, .each = each},
      size, context);
}

// A model can be used where its training files are not; one that needs them says so itself. An export reads
// no text.
bool is_needed(const SummarizationConfig& config, const Sources& wanted, bool has_tokenizer,
               const Context& context) {
  if (has_tokenizer && context.run().purpose == PL_PURPOSE_PREDICT && !config.ask.prompt.empty())
    return false;
  if (wanted.named.empty() || (context.run().purpose == PL_PURPOSE_EXPORT && has_tokenizer)) return false;
  if (context.run().purpose == PL_PURPOSE_TRAIN || !has_tokenizer) return true;
  for (const std::string& named : wanted.named) {
    if (sources::problem_of(named).empty()) continue;
    context.warn(named, " is not there: going on without it");
    return false;
  }
  return true;
}

}  // namespace

Corpus::Corpus(const SummarizationConfig& config, const Context& context,
               const tokenizer::TokenizerPtr& kept) {
  files::with_data_errors([&] {
    if (kept)
      tokenizer_ = kept;
    else if (!config.tokenizer.path.empty())
      tokenizer_ = tokenizer::load_tokenizer(config.tokenizer.path.string());
    else if (config.data.of(Split::kTrain).named.empty())
      fail_with(PL_ERROR_CONFIG, "task.data.train: is needed to train a tokenizer on");
    for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
      const Sources wanted = config.data.of(split);
      if (!is_needed(config, wanted, tokenizer_ != nullptr, context)) continue;
      std::vector<TokenCacheSource> all;
      for (const std::string& named : wanted.named)
        all.push_back(source_of(config.data, split, named, wanted.part, context));
      if (!tokenizer_)
        tokenizer_ =
            trained_tokenizer(all, config.tokenizer.vocab_size, context);  // on the training split, the first
      open(split, wanted, std::move(all), context);
    }
    if (context.run().purpose == PL_PURPOSE_PREDICT && tokenizer_ && !config.ask.prompt.empty())
      asked_ = tokenizer_->encode(config.ask.prompt);
    if (const double share = config.data.validation_share; share > 0 && size(Split::kTrain) > 0)
      context.info(files::held_out_text(config.data.named_for_training(), share,
                                        cache(Split::kTrain).records(), cache(Split::kVal).records()));
  });
  if (context.run().purpose == PL_PURPOSE_EVALUATE && size(Split::kTest) > 0) leave_out_unanswered(context);
}

// A document without a summary can be predicted, not evaluated.
void Corpus::leave_out_unanswered(const Context& context) {
  const TokenCache& test = caches_[static_cast<size_t>(Split::kTest)].stores().front();
  if (test.summaries() == 0 || test.summaries() == test.size()) return;
  for (uint64_t i = 0; i < test.size(); ++i)
    if (test.sample(i).summary.size() > 0) answered_.push_back(i);
  const uint64_t dropped = test.report().dropped();
  context.info("evaluated  ", answered_.size(), " of the ", test.report().records(),
               " records of the test file: ", test.size() - answered_.size(), " have no summary, and ",
               dropped, dropped == 1 ? " was dropped" : " were dropped");
}

void Corpus::carry(const tokenizer::Files& files) { tokenizer_ = tokenizer_->with(files); }

void Corpus::open(Split split, const Sources& wanted, std::vector<TokenCacheSource>&& all,
                  const Context& context) {
  std::vector<TokenCache> caches;
  for (TokenCacheSource& source : all) {
    source.tokenizer = std::to_string(tokenizer_->fingerprint());
    source.vocabulary_size = static_cast<uint32_t>(tokenizer_->vocab_size());
    TokenCacheHooks hooks;
    hooks.encode = [this](std::string_view text) { return tokenizer_->encode(text); };
    hooks.threads = std::max(1u, context.run().threads);
    const std::string what = "tokenizing " + source.files.name();
    hooks.progress = [&](uint64_t done, uint64_t total) { context.progress(what, done, total); };
    hooks.note = [&](const std::string& line) { context.info(line); };
    hooks.cancelled = [&] { return context.cancelled(); };
    caches.push_back(open_or_build_token_cache(cache_folder(context), source, hooks));
    // What training has said of its files is not said again.
    const bool is_known =
        split == Split::kTrain ? context.run().purpose != PL_PURPOSE_TRAIN : wanted.part.is_validation;
    if (is_known) continue;
    say_lines(context, caches.back().report().table());
    for (const std::string& note : caches.back().report().notes()) context.info(note);
  }
  caches_[static_cast<size_t>(split)] =
      Caches(std::move(caches), wanted.names, wanted.shares, context.seed("mixture"));
}

TokenSample Corpus::sample(Split split, uint64_t id, uint64_t epoch) const {
  if (is_asked(split)) {
    const auto view_of = [&](size_t count) {
      return TokenView(asked_.data(), static_cast<uint32_t>(count), sizeof(int32_t));
    };
    return {.bytes = {}, .document = view_of(asked_.size()), .summary = view_of(0), .id = "prompt"};
  }
  const bool is_listed = split == Split::kTest && !answered_.empty();
  return files::with_data_errors([&] {
    return cache(split).with(epoch, is_listed ? answered_[id] : id,
                             [](const TokenCache& one, uint64_t i) { return one.sample(i); });
  });
}

uint64_t Corpus::summaries(Split split) const {
  uint64_t count = 0;
  if (!is_asked(split))
    for (const TokenCache& one : cache(split).stores()) count += one.summaries();
  return count;
}

std::string Corpus::fingerprint(std::initializer_list<Split> splits) const {
  std::string result = std::to_string(tokenizer_->fingerprint());
  for (const Split split : splits)
    result += cache(split).size() > 0 ? " " + cache(split).fingerprint() : " -";
  return result;
}

}  // namespace pipeline::tasks::summarization
