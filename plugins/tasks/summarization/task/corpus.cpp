#include "plugins/tasks/summarization/task/corpus.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "plugins/tasks/common/text_pairs/input.hpp"
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
  return split == Split::kTrain ? data.train : split == Split::kVal ? data.val : data.test;
}

void say_lines(const Context& context, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) context.warn(line);
}

TokenCacheSource source_of(const SummarizationConfig& config, Split split, const Context& context) {
  const std::string path = file_of(config.data, split).string(),
                    what = "reading " + fs::path(path).filename().string();
  return {.file = text_pairs::hash_source(path,
                                          [&](uint64_t done, uint64_t total) {
                                            context.throw_if_cancelled();
                                            context.progress(what, done, total);
                                          }),
          .columns = columns_of(config.data, split),
          .max_record_bytes = static_cast<uint64_t>(config.data.max_record_bytes)};
}

std::string cache_folder(const Context& context) { return std::string(view(context.run().cache_dir)); }

// The tokenizer that the training file gives.
text::TokenizerPtr trained_tokenizer(TokenCacheSource source, int64_t size, const Context& context) {
  source.tokenizer = "trained/2 " + std::to_string(size);
  source.vocabulary_size = static_cast<uint32_t>(size);
  const auto each = [&](const auto& text, const auto& read) {
    PairReport report;
    text_pairs::read_pairs(source.file.path, source.columns,
                           [&](Pair&& pair) {
                             text(pair.first);
                             text(pair.second);
                           },
                           report, {.max_record_bytes = source.max_record_bytes, .on_block = read});
    text_pairs::check_unchanged(source.file);
  };
  return text::trained_tokenizer({.key = token_cache_key(source).hex(),
                                  .bytes = source.file.bytes,
                                  .what = fs::path(source.file.path).filename().string(),
                                  .each = each},
                                 size, context);
}

// A model can be used where its training files are not; one that needs them says so itself. An export reads
// no text.
bool is_needed(const SummarizationConfig& config, Split split, bool has_tokenizer, const Context& context) {
  const fs::path& file = file_of(config.data, split);
  if (file.empty() || (context.run().purpose == PL_PURPOSE_EXPORT && has_tokenizer)) return false;
  if (context.run().purpose == PL_PURPOSE_TRAIN || !has_tokenizer || fs::exists(file)) return true;
  context.warn(file.string(), " is not there: going on without it");
  return false;
}

[[noreturn]] void fail_with_system(const std::string& message, int code) {
  fail_with(code == ENOSPC || code == EDQUOT ? PL_ERROR_NO_SPACE : PL_ERROR_CONFIG, message);
}

}  // namespace

Corpus::Corpus(const SummarizationConfig& config, const Context& context, const text::TokenizerPtr& kept) {
  try {
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
  } catch (const DataError& error) {
    fail_with_system(error.what(), error.code());
  } catch (const text::Error& error) {
    fail_with_system(error.what(), error.code());
  } catch (const fs::filesystem_error& error) {
    fail_with_system(error.what(), error.code().value());
  } catch (const Cancelled& error) {
    fail_with(PL_ERROR_CANCELLED, error.what());
  }
}

void Corpus::carry_files_of(const fs::path& folder) {
  try {
    tokenizer_ = tokenizer_->with(text::files_of(folder, text::kLanguageModelFiles));
  } catch (const text::Error& error) {
    fail_with_system(error.what(), error.code());
  }
}

void Corpus::open(Split split, TokenCacheSource source, const Context& context) {
  source.tokenizer = std::to_string(tokenizer_->fingerprint());
  source.vocabulary_size = static_cast<uint32_t>(tokenizer_->vocab_size());
  TokenCacheHooks hooks;
  hooks.encode = [this](std::string_view text) { return tokenizer_->encode(text); };
  hooks.threads = std::max(1u, context.run().threads);
  const std::string what = "tokenizing " + fs::path(source.file.path).filename().string();
  hooks.progress = [&](uint64_t done, uint64_t total) { context.progress(what, done, total); };
  hooks.note = [&](const std::string& line) { context.info(line); };
  hooks.cancelled = [&] { return context.cancelled(); };
  auto& cache = caches_[static_cast<size_t>(split)];
  cache = open_or_build_token_cache(cache_folder(context), source, hooks);
  say_lines(context, cache->report().table(source.file.path));
}

std::string Corpus::fingerprint(std::initializer_list<Split> splits) const {
  std::string result = std::to_string(tokenizer_->fingerprint());
  for (const Split split : splits) result += cache(split) ? " " + cache(split)->fingerprint().hex() : " -";
  return result;
}

}  // namespace pipeline::summarization
