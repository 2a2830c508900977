#include "plugins/tasks/summarization/data/token_cache.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <regex>
#include <thread>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/packed_file.hpp"
#include "plugins/data/record_store/record_writer.hpp"
#include "plugins/data/text_pairs/input.hpp"

namespace pipeline::summarization {
namespace {

using files::bytes_of;
using files::FileLock;
using files::hash128;
using files::Hasher128;
using files::mark_used;

constexpr size_t kBatchPairs = 1024;
constexpr size_t kBatchBytes = size_t{4} << 20;

// The names that this task gives in a cache folder: token caches, tokenizers that were trained, and what
// processes that were killed left of these.
const std::regex& cache_names() {
  static const std::regex names(R"(.+-[0-9a-f]{32}\.tokens(\.part)?|tokenizer-[0-9a-f]{32}(\.tmp)?)");
  return names;
}

struct EncodedPair {
  std::vector<int32_t> document, summary;
};

// The payload of a block, sample by sample.
class BlockMaker {
 public:
  explicit BlockMaker(uint32_t vocabulary_size)
      : vocabulary_size_(vocabulary_size),
        token_bytes_(vocabulary_size <= uint32_t{std::numeric_limits<uint16_t>::max()} + 1 ? 2 : 4) {}

  // Throws DataError for a token that is not below the vocabulary's size.
  void add(const EncodedPair& pair, const std::string& id, uint64_t line) {
    entries_.push_back(entry(pair, line));
    for (const auto* tokens : {&pair.document, &pair.summary}) add_tokens(*tokens);
    ids_ += id;
  }

  // And starts the next one.
  std::string take() {
    const TokenBlock block{static_cast<uint32_t>(entries_.size()), token_bytes_, count_};
    entries_.push_back(entry({}, 0));
    std::string payload;
    payload.append(bytes_of(block)).append(bytes_of(entries_)).append(tokens_).append(ids_);
    *this = BlockMaker(vocabulary_size_);
    return payload;
  }

 private:
  TokenEntry entry(const EncodedPair& pair, uint64_t line) const {
    return {count_, static_cast<uint32_t>(pair.document.size()), static_cast<uint32_t>(pair.summary.size()),
            ids_.size(), line};
  }

  void add_tokens(const std::vector<int32_t>& tokens) {
    const auto outside = std::find_if(tokens.begin(), tokens.end(), [&](int32_t token) {
      return token < 0 || static_cast<uint32_t>(token) >= vocabulary_size_;
    });
    if (outside != tokens.end()) {
      throw DataError("the tokenizer gave token " + std::to_string(*outside) + ", its vocabulary has " +
                      std::to_string(vocabulary_size_) + ": the tokenizer's files do not belong together");
    }
    count_ += tokens.size();
    if (token_bytes_ == 4) {
      tokens_ += bytes_of(tokens);
      return;
    }
    const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
    tokens_ += bytes_of(narrow);
  }

  uint32_t vocabulary_size_, token_bytes_;
  std::vector<TokenEntry> entries_;
  std::string tokens_, ids_;
  uint64_t count_ = 0;
};

// Encodes pairs a batch at a time on several threads, and writes a block of each.
class Encoder {
 public:
  Encoder(const TokenCacheHooks& hooks, uint32_t vocabulary_size, records::RecordWriter& writer)
      : hooks_(hooks), block_(vocabulary_size), writer_(writer) {}

  void add(Pair&& pair) {
    bytes_ += pair.first.size() + pair.second.size();
    pairs_.push_back(std::move(pair));
    if (pairs_.size() >= kBatchPairs || bytes_ >= kBatchBytes) flush();
  }

  // The list of all blocks: nothing can be added after it.
  std::string finish(const PairReport& report) {
    if (!pairs_.empty()) flush();
    std::string payload;
    return payload.append(bytes_of(list_)).append(bytes_of(keys_)).append(report.to_json());
  }

 private:
  void flush() {
    hooks_.throw_if_cancelled();
    const std::vector<EncodedPair> encoded = encode();
    for (size_t i = 0; i < pairs_.size(); ++i) {
      block_.add(encoded[i], pairs_[i].id, pairs_[i].line);
      list_.summaries += encoded[i].summary.empty() ? 0 : 1;
      list_.tokens += encoded[i].document.size() + encoded[i].summary.size();
    }
    const std::string payload = block_.take();
    keys_.push_back(hash128(payload));
    writer_.append(records::make_record(keys_.back(), payload));
    ++list_.blocks;
    list_.samples += pairs_.size();
    pairs_.clear();
    bytes_ = 0;
  }

  std::vector<EncodedPair> encode() const {
    std::vector<EncodedPair> encoded(pairs_.size());
    std::atomic<size_t> next = 0;
    const size_t workers = std::clamp<size_t>(hooks_.threads, 1, pairs_.size());
    std::vector<std::exception_ptr> failures(workers);
    const auto work = [&](size_t worker) {
      try {
        for (size_t i; (i = next++) < pairs_.size();)
          encoded[i] = {hooks_.encode(pairs_[i].first), hooks_.encode(pairs_[i].second)};
      } catch (...) {
        failures[worker] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> others;
      for (size_t worker = 1; worker < workers; ++worker) others.emplace_back(work, worker);
      work(0);
    }
    for (const auto& failure : failures)
      if (failure) std::rethrow_exception(failure);
    return encoded;
  }

  const TokenCacheHooks& hooks_;
  BlockMaker block_;
  records::RecordWriter& writer_;
  std::vector<Pair> pairs_;
  size_t bytes_ = 0;
  TokenList list_{};
  std::vector<Hash128> keys_;
};

// The lock is the caller's: nobody else writes it.
void build(const std::string& path, const Hash128& key, const TokenCacheSource& source,
           const TokenCacheHooks& hooks) {
  records::RecordWriter writer(path, kTokens);
  Encoder encoder(hooks, source.vocabulary_size, writer);
  PairReport report;
  const auto on_block = [&](uint64_t bytes_done) {
    hooks.throw_if_cancelled();
    hooks.report(bytes_done, source.file.bytes);
  };
  const auto add = [&](Pair&& pair) {
    if (source.part.takes(pair.first)) encoder.add(std::move(pair));
  };
  read_pairs(source.file.path, source.columns, add, report,
             {source.max_record_bytes, source.quotes, on_block});
  writer.append(records::make_record(key, encoder.finish(report)));
  check_unchanged(source.file);
  writer.replace();
}

// The cache if it is there and whole; the reason goes to note() if it is there and not whole.
std::optional<TokenCache> try_open(const std::string& path, const Hash128& key,
                                   const TokenCacheHooks& hooks) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    TokenCache cache(path, key);
    mark_used(path);
    return cache;
  } catch (const DataError& error) {
    hooks.tell(error.what());
    return std::nullopt;
  }
}

}  // namespace

Hash128 token_cache_key(const TokenCacheSource& source) {
  Hasher128 hasher;
  const auto add = [&](const std::string& text) { hasher.update(std::to_string(text.size()) + ":" + text); };
  const Columns& c = source.columns;
  const auto name =
      std::filesystem::path(files::without_packing(source.file.path)).extension().string();  // the format
  for (const auto& text : {name, c.first, c.second, c.id, source.part.key(), source.tokenizer}) add(text);
  for (const uint64_t number :
       {uint64_t{kTokens.version}, uint64_t{c.second_required}, uint64_t{c.id_required},
        source.max_record_bytes, static_cast<uint64_t>(source.quotes), uint64_t{source.vocabulary_size}}) {
    add(std::to_string(number));
  }
  add(source.file.hash.hex());
  return hasher.finish();
}

std::string token_cache_path(const std::string& folder, const TokenCacheSource& source, const Hash128& key) {
  const auto name = std::filesystem::path(files::without_packing(source.file.path)).stem().string();
  return (std::filesystem::path(folder) / (name + "-" + key.hex() + ".tokens")).string();
}

TokenCache open_or_build_token_cache(const std::string& folder, const TokenCacheSource& source,
                                     const TokenCacheHooks& hooks) {
  const auto key = token_cache_key(source);
  const auto path = token_cache_path(folder, source, key);
  if (auto cache = try_open(path, key, hooks)) return std::move(*cache);
  const FileLock lock(
      path + ".lock",
      [&] { hooks.tell("waiting for another process that is tokenizing " + source.file.path); },
      hooks.cancelled);
  // Whoever held the lock has most likely built it. A damaged one was already reported.
  auto quiet = hooks;
  quiet.note = nullptr;
  if (auto cache = try_open(path, key, quiet)) return std::move(*cache);
  build(path, key, source, hooks);
  hooks.tell(files::remove_unused(folder, cache_names()));
  return TokenCache(path, key);
}

}  // namespace pipeline::summarization
