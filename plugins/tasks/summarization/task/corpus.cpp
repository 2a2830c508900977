#include "plugins/tasks/summarization/task/corpus.hpp"

#include <algorithm>
#include <sstream>

#include "files/data_errors.hpp"
#include "plugins/tasks/summarization/data/token_cache.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::summarization {
namespace {

namespace fs = std::filesystem;

Columns columns_of(const DataConfig& data, Split split) {
  return {.first = data.document_column,
          .second = data.summary_column,
          .id = data.id_column.empty() ? "id" : data.id_column,
          .second_required = split != Split::kTest,
          .id_required = !data.id_column.empty()};
}

const fs::path& file_of(const DataConfig& data, Split split) {
  if (split == Split::kTest) return data.test;
  return split == Split::kTrain || data.validation_share > 0 ? data.train : data.val;
}

void say_lines(const Context& context, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) context.warn(line);
}

std::string cache_folder(const Context& context) { return std::string(view(context.run().cache_dir)); }

TokenCacheSource source_of(const SummarizationConfig& config, Split split, const Context& context) {
  const fs::path& path = file_of(config.data, split);
  const std::string what = "reading " + path.filename().string();
  const files::Hooks hooks{
      .progress = [&](uint64_t done, uint64_t total) { context.progress(what, done, total); },
      .cancelled = [&] { return context.cancelled(); }};
  return {.files = sources::find_and_hash(path.string(), cache_folder(context), hooks),
          .columns = columns_of(config.data, split),
          .max_record_bytes = static_cast<uint64_t>(config.data.max_record_bytes),
          .quotes = text_pairs::quotes_named(config.data.quotes),
          .part = {.held_out = split == Split::kTest ? 0 : config.data.validation_share,
                   .is_validation = split == Split::kVal}};
}

// The tokenizer that the training file gives.
text::TokenizerPtr trained_tokenizer(TokenCacheSource source, int64_t size, const Context& context) {
  source.tokenizer = "trained/2 " + std::to_string(size);
  source.vocabulary_size = static_cast<uint32_t>(size);
  const auto each = [&](const auto& text, const auto& read) {
    SourceReport report;
    text_pairs::read_pairs(
        source.files, source.columns,
        [&](Pair&& pair, const std::string&) {
          if (!source.part.takes(pair.first)) return;
          text(pair.first);
          text(pair.second);
        },
        report, {.max_record_bytes = source.max_record_bytes, .quotes = source.quotes, .on_block = read});
    sources::check_unchanged(source.files);
  };
  return text::trained_tokenizer({.key = token_cache_key(source).hex(),
                                  .bytes = source.files.bytes,
                                  .what = source.files.name(),
                                  .each = each},
                                 size, context);
}

// A model can be used where its training files are not; one that needs them says so itself. An export reads
// no text.
bool is_needed(const SummarizationConfig& config, Split split, bool has_tokenizer, const Context& context) {
  const fs::path& file = file_of(config.data, split);
  if (has_tokenizer && context.run().purpose == PL_PURPOSE_PREDICT && !config.ask.prompt.empty())
    return false;
  if (file.empty() || (context.run().purpose == PL_PURPOSE_EXPORT && has_tokenizer)) return false;
  if (context.run().purpose == PL_PURPOSE_TRAIN || !has_tokenizer ||
      sources::problem_of(file.string()).empty())
    return true;
  context.warn(file.string(), " is not there: going on without it");
  return false;
}

}  // namespace

Corpus::Corpus(const SummarizationConfig& config, const Context& context, const text::TokenizerPtr& kept) {
  files::with_data_errors([&] {
    if (kept)
      tokenizer_ = kept;
    else if (!config.tokenizer.path.empty())
      tokenizer_ = text::load_tokenizer(config.tokenizer.path.string());
    for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (!is_needed(config, split, tokenizer_ != nullptr, context)) continue;
      TokenCacheSource source = source_of(config, split, context);
      if (!tokenizer_)
        tokenizer_ = trained_tokenizer(source, config.tokenizer.vocab_size,
                                       context);  // on the training split, the first
      open(split, std::move(source), context);
    }
    if (context.run().purpose == PL_PURPOSE_PREDICT && tokenizer_ && !config.ask.prompt.empty())
      asked_ = tokenizer_->encode(config.ask.prompt);
    if (const double share = config.data.validation_share; share > 0 && cache(Split::kTrain))
      context.info(
          files::held_out_text(config.data.train.string(), share, size(Split::kTrain), size(Split::kVal)));
  });
  if (context.run().purpose == PL_PURPOSE_EVALUATE && cache(Split::kTest)) leave_out_unanswered(context);
}

// A document without a summary can be predicted, not evaluated.
void Corpus::leave_out_unanswered(const Context& context) {
  const TokenCache& test = *cache(Split::kTest);
  if (test.summaries() == 0 || test.summaries() == test.size()) return;
  for (uint64_t i = 0; i < test.size(); ++i)
    if (test.sample(i).summary.size() > 0) answered_.push_back(i);
  const uint64_t dropped = test.report().dropped();
  context.info("evaluated  ", answered_.size(), " of the ", test.report().records(),
               " records of the test file: ", test.size() - answered_.size(), " have no summary, and ",
               dropped, dropped == 1 ? " was dropped" : " were dropped");
}

void Corpus::carry_files_of(const fs::path& folder) {
  files::with_data_errors(
      [&] { tokenizer_ = tokenizer_->with(text::files_of(folder, text::kLanguageModelFiles)); });
}

void Corpus::open(Split split, TokenCacheSource source, const Context& context) {
  source.tokenizer = std::to_string(tokenizer_->fingerprint());
  source.vocabulary_size = static_cast<uint32_t>(tokenizer_->vocab_size());
  TokenCacheHooks hooks;
  hooks.encode = [this](std::string_view text) { return tokenizer_->encode(text); };
  hooks.threads = std::max(1u, context.run().threads);
  const std::string what = "tokenizing " + source.files.name();
  hooks.progress = [&](uint64_t done, uint64_t total) { context.progress(what, done, total); };
  hooks.note = [&](const std::string& line) { context.info(line); };
  hooks.cancelled = [&] { return context.cancelled(); };
  auto& cache = caches_[static_cast<size_t>(split)];
  cache = open_or_build_token_cache(cache_folder(context), source, hooks);
  // What training has said of its file is not said again.
  const bool is_known = split == Split::kTrain ? context.run().purpose != PL_PURPOSE_TRAIN
                                               : split == Split::kVal && source.part.held_out > 0;
  if (is_known) return;
  say_lines(context, cache->report().table());
  for (const std::string& note : cache->report().notes()) context.info(note);
}

TokenSample Corpus::sample(Split split, uint64_t id) const {
  if (is_asked(split)) {
    const auto view_of = [&](size_t count) {
      return TokenView(asked_.data(), static_cast<uint32_t>(count), sizeof(int32_t));
    };
    return {.bytes = {}, .document = view_of(asked_.size()), .summary = view_of(0), .id = "prompt"};
  }
  const bool is_listed = split == Split::kTest && !answered_.empty();
  return files::with_data_errors([&] { return cache(split)->sample(is_listed ? answered_[id] : id); });
}

std::string Corpus::fingerprint(std::initializer_list<Split> splits) const {
  std::string result = std::to_string(tokenizer_->fingerprint());
  for (const Split split : splits) result += cache(split) ? " " + cache(split)->fingerprint().hex() : " -";
  return result;
}

}  // namespace pipeline::summarization
