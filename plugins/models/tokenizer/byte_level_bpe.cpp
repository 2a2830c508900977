#include "tokenizer/byte_level_bpe.hpp"

#include <algorithm>
#include <atomic>
#include <deque>

#include "core/base/utf8.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/bpe_model.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace pipeline::tokenizer {
namespace {

uint64_t fingerprint_of(const Vocabulary& vocabulary) {
  Fingerprint hash;
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
  for (const Added& token : vocabulary.added) hash.add(static_cast<uint64_t>(token.id));
  // What GPT-2's tokenizer has not is left out of the hash, so that its keys of caches stay what they were.
  if (vocabulary.pre_tokenizer != PreTokenizer::kGpt2 || vocabulary.ignore_merges) {
    hash.add(static_cast<uint64_t>(vocabulary.pre_tokenizer));
    hash.add(uint64_t{vocabulary.ignore_merges});
  }
  if (vocabulary.is_composed) hash.add(std::string_view("NFC"));
  if (const int32_t end = end_of_text(vocabulary); end != special_token(vocabulary, kEndOfText))
    hash.add(static_cast<uint64_t>(end));
  for (const Added& token : vocabulary.added) hash_matching(token.id, token.how, hash);
  return hash.value();
}

bool begins_with_space(std::string_view piece) {
  return character_class(decode_utf8(piece.data(), piece.data() + piece.size()).value) ==
         CharacterClass::kSpace;
}

uint32_t next_owner() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

}  // namespace

struct ByteLevelBpe::State {
  explicit State(Vocabulary v) : vocabulary(std::move(v)), model(vocabulary), cache_owner(next_owner()) {
    std::vector<AddedTokens::Token> tokens;
    for (const Added& token : vocabulary.added) {
      std::string_view text = token.text;
      if (vocabulary.is_composed && token.how.is_normalized)
        text = composed(text, composed_texts.emplace_back());
      tokens.push_back({text, token.id, token.how});
    }
    added = AddedTokens(std::move(tokens));
  }

  Vocabulary vocabulary;
  std::deque<std::string> composed_texts;  // of added tokens
  BpeModel model;
  AddedTokens added;
  uint32_t cache_owner;
};

ByteLevelBpe::ByteLevelBpe(Vocabulary vocabulary, Files files)
    : Tokenizer(std::move(files)), state_(std::make_shared<const State>(std::move(vocabulary))) {
  const Vocabulary& all = state_->vocabulary;
  facts_ = {
      .vocab_size = static_cast<int32_t>(all.tokens.size()),
      .eot = end_of_text(all),  // eos_token of tokenizer_config.json, else one of those two
      .bos = all.begin_of_text,
      .added_end = all.added_end,
      .adds_bos = all.adds_begin_of_text,
      .fingerprint = fingerprint_of(all),
      .no_eot = std::string("the tokenizer has no end of text: tokenizer_config.json names no eos_token, ") +
                "and there is no special token " + kEndOfText + " or " + kLlama3EndOfText};
}

ByteLevelBpe ByteLevelBpe::load(const std::string& path) {
  const NamedFiles files = read_byte_level_files(path);
  return ByteLevelBpe(parse_vocabulary(files), texts_of(files));
}

void ByteLevelBpe::save(const std::string& folder) const {
  Files all = files();
  all.merge(format_vocabulary(state_->vocabulary));  // where it was read from a file, that one stays
  write_tokenizer_files(all, folder);
}

std::string ByteLevelBpe::state() const {
  if (files().empty()) return format_tokenizer_state(state_->vocabulary);
  Files all = files();
  if (!has_tokens(all)) all.merge(format_vocabulary(state_->vocabulary));
  return pack(all);
}

ByteLevelBpe ByteLevelBpe::from_state(std::string_view state, const std::string& name) {
  if (!is_packed(state)) return ByteLevelBpe(parse_tokenizer_state({name, std::string(state)}));
  Files files = unpack(state, name);
  if (!has_tokens(files)) throw TokenizerError(name + ": is not the state of a tokenizer: it is damaged");
  Vocabulary vocabulary = parse_vocabulary(named(files, name + ": "));
  return ByteLevelBpe(std::move(vocabulary), std::move(files));
}

TokenizerPtr ByteLevelBpe::with(const Files& more) const { return Tokenizer::with(*this, more); }

void ByteLevelBpe::encode_append(std::string_view text, std::vector<int32_t>& ids, SpecialTokens special,
                                 TextPlace /*place*/) const {
  state_->added.cut(
      text, special, [&](std::string_view part) { encode_plain(part, ids); },
      [&](int32_t id) { ids.push_back(id); },
      state_->vocabulary.is_composed ? AddedTokens::Normalize(composed) : nullptr);
}

void ByteLevelBpe::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
  WordCache& cache = WordCache::of_this_thread();
  const bool ends_words = state_->vocabulary.ends_words();
  const std::string lower = ends_words ? lowered(text) : std::string();
  for (PieceScanner scanner(ends_words ? lower : text, state_->vocabulary.pre_tokenizer); scanner.next();) {
    const std::string_view piece = scanner.piece();
    if (ends_words && begins_with_space(piece)) continue;
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
    check_id(id);
    bytes += state_->vocabulary.tokens[static_cast<size_t>(id)];
  }
  return bytes;
}

std::string ByteLevelBpe::decode(std::span<const int32_t> ids) const {
  std::string bytes = decode_bytes(ids);
  if (state_->vocabulary.ends_words() && bytes.ends_with(' ')) bytes.pop_back();  // the last word's end
  return replace_invalid_utf8(bytes);
}

const Vocabulary& ByteLevelBpe::vocabulary() const { return state_->vocabulary; }

std::optional<int32_t> ByteLevelBpe::special_token(std::string_view text) const {
  const int32_t id = tokenizer::special_token(state_->vocabulary, text);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

bool ByteLevelBpe::is_special(int64_t id) const {
  return id >= 0 && is_added(state_->vocabulary, static_cast<size_t>(id));
}

Tokenizer::Special ByteLevelBpe::first_special(std::string_view text) const {
  return state_->added.first_special(text);
}

}  // namespace pipeline::tokenizer
