// Any bytes as a text: they survive, decode to valid UTF-8, and are encoded piece by piece.
#include <cstdint>
#include <string>

#include "core/base/utf8.hpp"
#include "tests/models/tokenizer/fixtures.hpp"
#include "tests/support/fuzz.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/pre_tokenizer.hpp"

using namespace pipeline;
using pipeline::tests::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const tokenizer::ByteLevelBpe& tokenizer = tests::trained_tokenizer();
  const std::vector<int32_t> ids = tokenizer.encode(text);
  require(tokenizer.decode_bytes(ids) == text);
  require(tokenizer.decode_bytes(tokenizer.encode(text, tokenizer::SpecialTokens::kRecognize)) == text);
  const std::string shown = tokenizer.decode(ids);
  require(replace_invalid_utf8(shown) == shown);

  for (const auto kind : {tokenizer::PreTokenizer::kSmolLm, tokenizer::PreTokenizer::kLlama3,
                          tokenizer::PreTokenizer::kQwen2}) {
    size_t bytes = 0;
    for (tokenizer::PieceScanner scanner(text, kind); scanner.next();) {
      require(!scanner.piece().empty());
      bytes += scanner.piece().size();
    }
    require(bytes == size);
  }

  std::vector<int32_t> one_by_one;  // a piece stays one where it stands alone
  for (tokenizer::PieceScanner scanner(text); scanner.next();)
    tokenizer.encode_append(scanner.piece(), one_by_one);
  require(one_by_one == ids);
  return 0;
}
