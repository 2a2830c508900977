#include "plugins/tasks/summarization/data/token_cache_builder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <optional>
#include <regex>
#include <thread>

#include "plugins/tasks/summarization/data/files.hpp"
#include "plugins/tasks/summarization/data/token_cache_writer.hpp"

namespace pipeline::summarization {
namespace {

constexpr size_t kBatchPairs = 1024;
constexpr size_t kBatchBytes = size_t{4} << 20;

// The names that this task gives in a cache folder: token caches, tokenizers that were trained, and what processes that were killed left
// of these.
const std::regex& cache_names() {
  static const std::regex names(R"(.+-[0-9a-f]{32}\.tokens(\.part)?|tokenizer-[0-9a-f]{32}(\.tmp)?)");
  return names;
}

struct EncodedPair {
  std::vector<int32_t> document, summary;
};

// Encodes pairs a batch at a time on several threads and writes them in order.
class Encoder {
 public:
  Encoder(const TokenCacheHooks& hooks, TokenCacheWriter& writer) : hooks_(hooks), writer_(writer) {}

  void add(Pair&& pair) {
    bytes_ += pair.document.size() + pair.summary.size();
    pairs_.push_back(std::move(pair));
    if (pairs_.size() >= kBatchPairs || bytes_ >= kBatchBytes) flush();
  }

  void flush() {
    if (hooks_.cancelled && hooks_.cancelled()) throw Cancelled();
    std::vector<EncodedPair> encoded(pairs_.size());
    std::atomic<size_t> next = 0;
    const size_t workers = std::clamp<size_t>(hooks_.threads, 1, std::max<size_t>(pairs_.size(), 1));
    std::vector<std::exception_ptr> failures(workers);
    const auto work = [&](size_t worker) {
      try {
        for (size_t i; (i = next++) < pairs_.size();) {
          encoded[i] = {hooks_.encode(pairs_[i].document), hooks_.encode(pairs_[i].summary)};
        }
      } catch (...) {
        failures[worker] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> others;
      for (size_t worker = 1; worker < workers; ++worker) others.emplace_back(work, worker);
      work(0);
    }
    for (const auto& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      writer_.add(encoded[i].document, encoded[i].summary, pairs_[i].id, pairs_[i].line);
    }
    pairs_.clear();
    bytes_ = 0;
  }

 private:
  const TokenCacheHooks& hooks_;
  TokenCacheWriter& writer_;
  std::vector<Pair> pairs_;
  size_t bytes_ = 0;
};

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // not every file system can; the rename itself has succeeded
  ::close(fd);
}

void build(const std::string& path, const Hash128& key, const TokenCacheSource& source,
           const TokenCacheHooks& hooks) {
  const std::string part =
      path +
      ".part";  // the lock is ours: nobody else writes it, and what a killed process left is overwritten
  try {
    TokenCacheWriter writer(part, key, source.vocabulary_size);
    Encoder encoder(hooks, writer);
    PairReport report;
    const auto on_block = [&](uint64_t bytes_done) {
      if (hooks.cancelled && hooks.cancelled()) throw Cancelled();
      if (hooks.progress) hooks.progress(bytes_done, source.file.bytes, report.pairs);
    };
    read_pairs(source.file.path, source.columns, [&](Pair&& pair) { encoder.add(std::move(pair)); }, report,
               {source.max_record_bytes, on_block});
    encoder.flush();
    writer.finish(report);
    check_unchanged(source.file);
    if (::rename(part.c_str(), path.c_str()) != 0)
      throw system_error(path, "the cache folder must be writable");
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
  sync_folder(std::filesystem::path(path).parent_path().string());
}

// The cache if it is there and whole; the reason goes to note() if it is there and not whole.
std::optional<TokenCache> try_open(const std::string& path, const Hash128& key,
                                   const TokenCacheHooks& hooks) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    TokenCache cache(path, key, TokenCache::Verify::kAll);
    mark_used(path);
    return cache;
  } catch (const DataError& error) {
    if (hooks.note) hooks.note(error.what());
    return std::nullopt;
  }
}

}  // namespace

Hash128 token_cache_key(const TokenCacheSource& source) {
  Hasher128 hasher;
  const auto add = [&](const std::string& text) { hasher.update(std::to_string(text.size()) + ":" + text); };
  const Columns& c = source.columns;
  const auto name = std::filesystem::path(source.file.path).extension().string();  // decides the format
  for (const auto& text : {name, c.document, c.summary, c.id, source.tokenizer}) add(text);
  for (const uint64_t number :
       {uint64_t{kCacheVersion}, uint64_t{c.summary_required}, uint64_t{c.id_required},
        source.max_record_bytes, uint64_t{source.vocabulary_size}}) {
    add(std::to_string(number));
  }
  add(source.file.hash.hex());
  return hasher.finish();
}

std::string token_cache_path(const std::string& folder, const TokenCacheSource& source, const Hash128& key) {
  const auto name = std::filesystem::path(source.file.path).stem().string();
  return (std::filesystem::path(folder) / (name + "-" + key.hex() + ".tokens")).string();
}

TokenCache open_or_build_token_cache(const std::string& folder, const TokenCacheSource& source,
                                     const TokenCacheHooks& hooks) try {
  const auto key = token_cache_key(source);
  const auto path = token_cache_path(folder, source, key);
  if (auto cache = try_open(path, key, hooks)) return std::move(*cache);
  std::filesystem::create_directories(folder);
  const FileLock lock(
      path + ".lock",
      [&] {
        if (hooks.note) hooks.note("waiting for another process that is tokenizing " + source.file.path);
      },
      hooks.cancelled);
  // Whoever held the lock has most likely built it. A damaged one was already reported.
  auto quiet = hooks;
  quiet.note = nullptr;
  if (auto cache = try_open(path, key, quiet)) return std::move(*cache);
  build(path, key, source, hooks);
  if (const auto removed = files::remove_unused(folder, cache_names()); hooks.note && !removed.empty()) hooks.note(removed);
  return TokenCache(path, key, TokenCache::Verify::kTables);
} catch (const std::filesystem::filesystem_error& error) {
  throw DataError(std::string(error.what()) + ": check that the cache folder can be written",
                  error.code().value());
}

}  // namespace pipeline::summarization
