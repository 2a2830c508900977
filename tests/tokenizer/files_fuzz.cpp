// Any bytes as a tokenizer's file: an Error, or a tokenizer that works and comes back from both forms. The
// first byte says which file: j tokenizer.json, v vocab.json, m merges.txt for the recorded vocabulary.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/tokenizer/fixtures.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/tokenizer_files.hpp"

using namespace pipeline;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

text::Vocabulary parse(char file, const std::string& content) {
  static const std::string vocab = text::format_vocab_json(tests::trained_tokenizer().vocabulary());
  if (file == 'j') return text::parse_tokenizer_json({"fuzz", content});
  if (file == 'v') return text::parse_vocab_and_merges({"fuzz", content}, {"merges", ""});
  return text::parse_vocab_and_merges({"vocab", vocab}, {"fuzz", content});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  text::Vocabulary vocabulary;
  try {
    vocabulary =
        parse(static_cast<char>(data[0]), std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  } catch (const text::Error&) {
    return 0;
  }
  const text::ByteLevelBpe tokenizer(vocabulary);
  const std::string sample = "The text's 1,234 bytes:\n\xff <|endoftext|> äöü 文本";
  for (const auto special : {text::SpecialTokens::kAsText, text::SpecialTokens::kRecognize}) {
    require(tokenizer.decode_bytes(tokenizer.encode(sample, special)) == sample);
  }
  const text::ByteLevelBpe again(
      text::parse_tokenizer_json({"again", text::format_tokenizer_json(vocabulary)}));
  require(again.fingerprint() == tokenizer.fingerprint());
  return 0;
}
