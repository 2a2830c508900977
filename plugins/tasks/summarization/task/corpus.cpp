#include "plugins/tasks/summarization/task/corpus.hpp"

#include <algorithm>
#include <sstream>

#include "plugins/tasks/common/tokenizer/bpe_trainer.hpp"
#include "plugins/tasks/summarization/data/error.hpp"
#include "plugins/tasks/summarization/data/token_cache_builder.hpp"

namespace pipeline::summarization {
namespace {

namespace fs = std::filesystem;

Columns columns_of(const DataConfig& data, Split split) {
  return {.document = data.document_column,
          .summary = data.summary_column,
          .id = data.id_column.empty() ? "id" : data.id_column,
          .summary_required = split != Split::kTest,
          .id_required = !data.id_column.empty()};
}

const fs::path& file_of(const DataConfig& data, Split split) {
  return split == Split::kTrain ? data.train : split == Split::kVal ? data.val : data.test;
}

void say_lines(const Context& context, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) context.warn(line);
}

TokenCacheSource source_of(const SummarizationConfig& config, Split split) {
  return {.path = file_of(config.data, split).string(),
          .columns = columns_of(config.data, split),
          .max_record_bytes = static_cast<uint64_t>(config.data.max_record_bytes)};
}

// The tokenizer that the training file gives; kept beside the caches.
text::ByteLevelBpe trained_tokenizer(const SummarizationConfig& config, const Context& context) {
  const int64_t size = config.tokenizer.vocab_size;
  TokenCacheSource source = source_of(config, Split::kTrain);
  source.tokenizer = "trained/1 " + std::to_string(size);
  source.vocabulary_size = static_cast<uint32_t>(size);
  const fs::path folder = fs::path(view(context.run().cache_dir)) / ("tokenizer-" + token_cache_key(source).hex());
  if (fs::exists(folder / "tokenizer.json")) return text::ByteLevelBpe::load(folder.string());

  text::BpeTrainer trainer;
  PairReport report;
  std::error_code error;
  const uint64_t total = fs::file_size(config.data.train, error);
  read_pairs(
      source.path, source.columns,
      [&](Pair&& pair) {
        trainer.add(pair.document);
        trainer.add(pair.summary);
      },
      report,
      {.max_record_bytes = source.max_record_bytes, .on_block = [&](uint64_t done) {
         context.throw_if_cancelled();
         context.progress("reading text for the tokenizer", done, error ? 0 : total);
       }});
  context.info("training a tokenizer of ", size, " tokens on ", report.pairs, " pairs");
  text::ByteLevelBpe tokenizer = trainer.train({.vocab_size = static_cast<int32_t>(size)});
  // Whole or not at all: a folder cut short by a kill has another name.
  const fs::path temporary = folder.string() + ".tmp";
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  tokenizer.save(temporary.string());
  fs::rename(temporary, folder);
  return tokenizer;
}

}  // namespace

Corpus::Corpus(const SummarizationConfig& config, const Context& context) {
  try {
    tokenizer_ = config.tokenizer.path.empty() ? trained_tokenizer(config, context)
                                               : text::ByteLevelBpe::load(config.tokenizer.path.string());
    for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (file_of(config.data, split).empty()) continue;
      TokenCacheSource source = source_of(config, split);
      source.tokenizer = std::to_string(tokenizer_->fingerprint());
      source.vocabulary_size = static_cast<uint32_t>(tokenizer_->vocab_size());
      TokenCacheHooks hooks;
      hooks.encode = [this](std::string_view text) { return tokenizer_->encode(text); };
      hooks.threads = std::max(1u, context.run().threads);
      const std::string what = "tokenizing " + fs::path(source.path).filename().string();
      hooks.progress = [&](uint64_t done, uint64_t total, uint64_t) { context.progress(what, done, total); };
      hooks.note = [&](const std::string& line) { context.info(line); };
      hooks.cancelled = [&] { return context.cancelled(); };
      auto& cache = caches_[static_cast<size_t>(split)];
      cache = open_or_build_token_cache(std::string(view(context.run().cache_dir)), source, hooks);
      say_lines(context, cache->report().table(source.path));
    }
  } catch (const DataError& error) {
    fail_with(PL_ERROR_CONFIG, error.what());
  } catch (const Cancelled& error) {
    fail_with(PL_ERROR_CANCELLED, error.what());
  } catch (const text::Error& error) {
    fail_with(PL_ERROR_CONFIG, error.what());
  }
}

std::string Corpus::fingerprint() const {
  std::string result = std::to_string(tokenizer_->fingerprint());
  for (const auto& cache : caches_) result += cache ? " " + cache->fingerprint().hex() : " -";
  return result;
}

}  // namespace pipeline::summarization
