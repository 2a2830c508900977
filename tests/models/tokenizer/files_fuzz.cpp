// Any bytes as a tokenizer's file: a TokenizerError, or a tokenizer that works and comes back from its text.
// The first byte says which file: j tokenizer.json or a checkpoint's text, s tokenizer.json of SentencePiece,
// w of WordPiece or unigrams, c tokenizer_config.json for SmolLM's, v vocab.json, m merges.txt for the
// recorded vocabulary.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/models/tokenizer/fixtures.hpp"
#include "tests/support/fuzz.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/sentence_piece_model.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/vocabulary_builder.hpp"
#include "tokenizer/word_tokenizer.hpp"

using namespace pipeline;
using pipeline::tests::require;

namespace {

tokenizer::Vocabulary parse(char file, const std::string& content) {
  static const std::string vocab = tokenizer::format_vocab_json(tests::trained_tokenizer().vocabulary());
  if (file == 'j') return tokenizer::parse_tokenizer_state({"fuzz", content});
  if (file == 'c') {
    static const tokenizer::Vocabulary smol_lm =
        tokenizer::ByteLevelBpe::load(tests::fixture("kinds/smol_lm")).vocabulary();
    tokenizer::Vocabulary vocabulary = smol_lm;
    tokenizer::read_tokenizer_config({"fuzz", content}, vocabulary);
    return vocabulary;
  }
  if (file == 'v') return tokenizer::parse_vocab_and_merges({"fuzz", content}, {"merges", ""});
  return tokenizer::parse_vocab_and_merges({"vocab", vocab}, {"fuzz", content});
}

void read_sentence_piece(const std::string& content) {
  static_cast<void>(tokenizer::is_character_bpe({"fuzz", content}));
  const auto pieces = tokenizer::character_bpe(tokenizer::parse_tokenizer_file({"fuzz", content}), "fuzz");
  for (const tokenizer::TextPlace place : {tokenizer::TextPlace::kStart, tokenizer::TextPlace::kWithin})
    for (const int id : pieces->encode("The cat's 1,234\n\xff äöü ▁ <s>", place))
      require(id >= 0 && static_cast<size_t>(id) < pieces->bytes.size());
}

void read_words(const std::string& content) {
  const tokenizer::WordTokenizer read(tokenizer::NamedFiles{{"tokenizer.json", {"fuzz", content}}});
  const std::vector<int32_t> ids = read.encode("The cat's 1,234\n\xff äöü ▁ <s> [SEP] 文本");
  static_cast<void>(read.decode(ids));  // checks them
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string content(reinterpret_cast<const char*>(data) + 1, size - 1);
  tokenizer::Vocabulary vocabulary;
  try {
    if (data[0] == 's') return read_sentence_piece(content), 0;
    if (data[0] == 'w') return read_words(content), 0;
    if (data[0] == 'p') return require(tokenizer::tokenizer_of_state(content, "fuzz")->vocab_size() > 0), 0;
    vocabulary = parse(static_cast<char>(data[0]), content);
  } catch (const tokenizer::TokenizerError&) {
    return 0;
  }
  const tokenizer::ByteLevelBpe tokenizer(vocabulary);
  for (const bool all_bytes : {false, true}) {
    std::string sample = "The text's 1,234 bytes <|endoftext|>, and more";
    if (all_bytes) sample += ":\n\xff äöü 文本";
    for (const auto special : {tokenizer::SpecialTokens::kAsText, tokenizer::SpecialTokens::kRecognize}) {
      const std::string back = tokenizer.decode_bytes(tokenizer.encode(sample, special));
      require(back == sample || (all_bytes && vocabulary.pre_tokenizer == tokenizer::PreTokenizer::kSmolLm));
    }
  }
  const tokenizer::ByteLevelBpe again(
      tokenizer::parse_tokenizer_state({"again", tokenizer::format_tokenizer_state(vocabulary)}));
  require(again.fingerprint() == tokenizer.fingerprint());
  require(again.bos() == tokenizer.bos() && again.adds_bos() == tokenizer.adds_bos());
  return 0;
}
