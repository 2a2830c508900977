#include "tokenizer/byte_level_bpe.hpp"

#include <algorithm>
#include <atomic>

#include "core/base/utf8.hpp"
#include "tokenizer/bpe_model.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/word_cache.hpp"

namespace pipeline::text {
namespace {

// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  void add(uint64_t number) {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (number >> (8 * i) & 0xff)) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

uint64_t fingerprint_of(const Vocabulary& vocabulary) {
  Hash hash;
  hash.add(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) {
    hash.add(token.size());
    hash.add(token);
  }
  hash.add(vocabulary.merges.size());
  for (const Merge& merge : vocabulary.merges) {
    hash.add(static_cast<uint64_t>(merge.left));
    hash.add(static_cast<uint64_t>(merge.right));
  }
  for (const int32_t id : vocabulary.special) hash.add(static_cast<uint64_t>(id));
  // What GPT-2's has not says nothing, so that its keys of caches stay what they were.
  if (vocabulary.pre_tokenizer != PreTokenizer::kGpt2 || vocabulary.ignore_merges) {
    hash.add(static_cast<uint64_t>(vocabulary.pre_tokenizer));
    hash.add(uint64_t{vocabulary.ignore_merges});
  }
  if (const int32_t end = end_of_text(vocabulary); end != special_token(vocabulary, kEndOfText))
    hash.add(static_cast<uint64_t>(end));
  return hash.value();
}

uint32_t next_owner() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

}  // namespace

struct ByteLevelBpe::State {
  explicit State(Vocabulary v)
      : vocabulary(std::move(v)),
        model(vocabulary),
        eot(end_of_text(vocabulary)),
        fingerprint(fingerprint_of(vocabulary)),
        cache_owner(next_owner()) {}

  Vocabulary vocabulary;
  BpeModel model;
  int32_t eot;  // -1: none
  uint64_t fingerprint;
  uint32_t cache_owner;
};

ByteLevelBpe::ByteLevelBpe(Vocabulary vocabulary)
    : state_(std::make_shared<const State>(std::move(vocabulary))) {}

ByteLevelBpe ByteLevelBpe::load(const std::string& path) { return ByteLevelBpe(load_vocabulary(path)); }

void ByteLevelBpe::save(const std::string& folder) const { save_vocabulary(state_->vocabulary, folder); }

std::string ByteLevelBpe::state() const { return format_tokenizer_state(state_->vocabulary); }

ByteLevelBpe ByteLevelBpe::from_state(std::string_view state, const std::string& name) {
  return ByteLevelBpe(parse_tokenizer_state({name, std::string(state)}));
}

std::vector<int32_t> ByteLevelBpe::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);  // English has more than 4 bytes a token, many scripts fewer than 3
  encode_append(text, ids, special);
  return ids;
}

void ByteLevelBpe::encode_append(std::string_view text, std::vector<int32_t>& ids,
                                 SpecialTokens special) const {
  if (special == SpecialTokens::kRecognize) {
    while (true) {
      // The special token that stands first; of those that begin at the same place, the longest.
      size_t at = std::string_view::npos;
      int32_t found = -1;
      for (const int32_t id : state_->vocabulary.special) {
        const std::string& token = state_->vocabulary.tokens[static_cast<size_t>(id)];
        const size_t position =
            text.substr(0, at == std::string_view::npos ? at : at + token.size()).find(token);
        if (position == std::string_view::npos || position > at) continue;
        if (position < at || token.size() > state_->vocabulary.tokens[static_cast<size_t>(found)].size()) {
          at = position;
          found = id;
        }
      }
      if (found < 0) break;
      encode_plain(text.substr(0, at), ids);
      ids.push_back(found);
      text.remove_prefix(at + state_->vocabulary.tokens[static_cast<size_t>(found)].size());
    }
  }
  encode_plain(text, ids);
}

void ByteLevelBpe::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
  WordCache& cache = WordCache::of_this_thread();
  for (PieceScanner scanner(text, state_->vocabulary.pre_tokenizer); scanner.next();) {
    const std::string_view piece = scanner.piece();
    if (piece.size() > WordCache::kMaxBytes) {
      state_->model.encode_append(piece, ids);
      continue;
    }
    const WordCache::Entry key = WordCache::key(piece, state_->cache_owner);
    WordCache::Entry& slot = cache.slot(key);
    if (slot.holds(key)) {
      ids.insert(ids.end(), slot.tokens().begin(), slot.tokens().end());
      continue;
    }
    const size_t before = ids.size();
    state_->model.encode_append(piece, ids);
    const auto tokens = std::span<const int32_t>(ids).subspan(before);
    if (tokens.size() <= WordCache::kMaxTokens) slot.assign(key, tokens);
  }
}

std::string ByteLevelBpe::decode_bytes(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw Error("token id = " + std::to_string(id) + ": must be from 0 to " +
                  std::to_string(vocab_size() - 1));
    }
    bytes += state_->vocabulary.tokens[static_cast<size_t>(id)];
  }
  return bytes;
}

std::string ByteLevelBpe::decode(std::span<const int32_t> ids) const {
  return replace_invalid_utf8(decode_bytes(ids));
}

const Vocabulary& ByteLevelBpe::vocabulary() const { return state_->vocabulary; }

int32_t ByteLevelBpe::vocab_size() const { return static_cast<int32_t>(state_->vocabulary.tokens.size()); }

bool ByteLevelBpe::has_eot() const { return state_->eot >= 0; }

int32_t ByteLevelBpe::eot() const {
  if (!has_eot()) {
    throw Error(
        std::string("the tokenizer has no end of text: tokenizer_config.json names no eos_token, and ") +
        "there is no special token " + kEndOfText + " or " + kLlama3EndOfText);
  }
  return state_->eot;
}

std::optional<int32_t> ByteLevelBpe::bos() const {
  const int32_t id = state_->vocabulary.begin_of_text;
  return id >= 0 ? std::optional(id) : std::nullopt;
}

bool ByteLevelBpe::adds_bos() const { return state_->vocabulary.adds_begin_of_text; }

uint64_t ByteLevelBpe::fingerprint() const { return state_->fingerprint; }

}  // namespace pipeline::text
