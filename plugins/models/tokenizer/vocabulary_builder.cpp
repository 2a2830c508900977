#include "tokenizer/vocabulary_builder.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {
namespace {

using strict_json::excerpt;

constexpr uint32_t kSubstitutes = 0x100;  // the first character that does not stand for itself
constexpr uint32_t kSubstituteCount = 68;

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<uint16_t, 256> character_of{};
  std::array<uint8_t, kSubstitutes + kSubstituteCount> byte_of{};
  std::array<uint8_t, 256> order{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  uint16_t substitute = kSubstitutes;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint16_t character = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : substitute++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<uint8_t>(byte);
  }
  size_t position = 0;
  for (const bool itself : {true, false}) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (stands_for_itself(byte) == itself) alphabet.order[position++] = static_cast<uint8_t>(byte);
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

bool is_added(const Vocabulary& vocabulary, size_t id) {
  const auto first = std::lower_bound(vocabulary.added.begin(), vocabulary.added.end(), id,
                                      [](const Added& a, size_t b) { return static_cast<size_t>(a.id) < b; });
  return first != vocabulary.added.end() && static_cast<size_t>(first->id) == id;
}

int32_t special_token(const Vocabulary& vocabulary, std::string_view text) {
  for (const Added& token : vocabulary.added)
    if (token.text == text) return token.id;
  return -1;
}

int32_t end_of_text(const Vocabulary& vocabulary) {
  if (vocabulary.end_of_text >= 0) return vocabulary.end_of_text;
  const int32_t gpt2 = special_token(vocabulary, kEndOfText);
  return gpt2 >= 0 ? gpt2 : special_token(vocabulary, kLlama3EndOfText);
}

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(kAlphabet.character_of[static_cast<uint8_t>(byte)], text);
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string bytes;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const CodePoint character = decode_utf8(p, end);
    const bool substitute =
        character.value >= kSubstitutes && character.value < kSubstitutes + kSubstituteCount;
    if (!substitute && !(character.value < kSubstitutes && stands_for_itself(character.value)))
      return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of[character.value]);
    p += character.bytes;
  }
  return bytes;
}

const std::array<uint8_t, 256>& alphabet_order() { return kAlphabet.order; }

void VocabularyBuilder::insert(const std::string& text, std::string bytes, int64_t id,
                               const std::string& place) {
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
    throw TokenizerError(place + ": id of " + excerpt(text) + " = " + std::to_string(id) +
                         ": must be from 0 to 2147483647");
  }
  tokens_.emplace(text, Token{std::move(bytes), static_cast<int32_t>(id)});
}

void VocabularyBuilder::add_added(const std::string& content, int64_t id, const Matching& how,
                                  const std::string& place) {
  if (content.empty()) throw TokenizerError(place + ": is empty");
  if (tokens_.contains(content)) throw TokenizerError(place + ": " + excerpt(content) + " was added before");
  insert(content, content, id, place);
  vocabulary_.added.push_back({static_cast<int32_t>(id), content, how});
}

void VocabularyBuilder::add_token(const std::string& text, int64_t id, const std::string& place) {
  auto bytes = bytes_of(text);
  const auto known = tokens_.find(text);
  if (known != tokens_.end()) {
    // "é" is found as it is written, and stands for the byte that the alphabet writes so.
    if (known->second.id == id && bytes && !bytes->empty()) known->second.bytes = *std::move(bytes);
    if (known->second.id == id) return;
    throw TokenizerError(place + ": id of " + excerpt(text) + " = " + std::to_string(id) +
                         ": the added token has " + std::to_string(known->second.id));
  }
  if (!bytes || bytes->empty()) {
    throw TokenizerError(place + ": token " + excerpt(text) + ": is not written in GPT-2's byte alphabet");
  }
  insert(text, std::move(*bytes), id, place);
}

std::optional<std::string> VocabularyBuilder::bytes_of(std::string_view text) const {
  const std::string_view end = kWordEnd;
  if (!vocabulary_.ends_words() || !text.ends_with(end) || text.size() == end.size())
    return from_alphabet(text);
  auto bytes = from_alphabet(text.substr(0, text.size() - end.size()));
  if (bytes) *bytes += ' ';
  return bytes;
}

void VocabularyBuilder::check_tokens(const std::string& place) {
  std::vector<const std::string*> text_of(tokens_.size(), nullptr);
  for (const auto& [text, token] : tokens_) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= text_of.size()) {
      throw TokenizerError(place + ": id of " + excerpt(text) + " = " + std::to_string(id) + ": the ids of " +
                           std::to_string(text_of.size()) + " tokens must be 0 to " +
                           std::to_string(text_of.size() - 1));
    }
    if (text_of[id] != nullptr) {
      throw TokenizerError(place + ": " + excerpt(std::min(text, *text_of[id])) + " and " +
                           excerpt(std::max(text, *text_of[id])) + " both have id " + std::to_string(id));
    }
    text_of[id] = &text;
  }
  std::sort(vocabulary_.added.begin(), vocabulary_.added.end(),
            [](const Added& a, const Added& b) { return a.id < b.id; });
  std::unordered_set<std::string_view> all;
  vocabulary_.tokens.reserve(text_of.size());
  for (const std::string* text : text_of) {
    vocabulary_.tokens.push_back(tokens_.at(*text).bytes);
    all.insert(tokens_.at(*text).bytes);
  }
  for (const uint8_t byte : alphabet_order()) {
    const std::string bytes(1, static_cast<char>(byte));
    if (vocabulary_.ends_words() && !all.contains(bytes + " "))
      throw TokenizerError(place + ": byte " + std::to_string(byte) + ", written " +
                           excerpt(to_alphabet(bytes) + kWordEnd) +
                           " where it ends a word, has no token: not the vocabulary of CLIP's tokenizer?");
    if (all.contains(bytes)) continue;
    has_all_bytes_ = false;  // SmolLM's own lacks bytes that no text has, or few
    if (vocabulary_.pre_tokenizer != PreTokenizer::kSmolLm || (byte >= ' ' && byte <= '~')) {
      throw TokenizerError(place + ": byte " + std::to_string(byte) + ", written " +
                           excerpt(to_alphabet(bytes)) +
                           ", has no token: not the vocabulary of a byte-level tokenizer?");
    }
  }
}

int32_t VocabularyBuilder::id_of(const std::string& text, const std::function<std::string()>& place) const {
  const auto found = tokens_.find(text);
  if (found == tokens_.end())
    throw TokenizerError(place() + ": " + excerpt(text) + " is not in the vocabulary");
  return found->second.id;
}

void VocabularyBuilder::add_merge(std::string_view left, std::string_view right,
                                  const std::function<std::string()>& place) {
  std::string text(left);
  const int32_t left_id = id_of(text, place);
  const int32_t right_id = id_of(std::string(right), place);
  const int32_t result_id = id_of(text.append(right), place);
  const uint64_t pair = uint64_t{static_cast<uint32_t>(left_id)} << 32 | static_cast<uint32_t>(right_id);
  const auto [known, is_new] = merge_ranks_.emplace(pair, vocabulary_.merges.size());
  if (!is_new) {
    throw TokenizerError(place() + ": " + excerpt(std::string(left)) + " and " + excerpt(std::string(right)) +
                         " are also merge number " + std::to_string(known->second + 1));
  }
  vocabulary_.merges.push_back({left_id, right_id, result_id});
}

}  // namespace pipeline::tokenizer
