#include "tokenizer/tokenizer.hpp"

#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/sentence_piece.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace pipeline::tokenizer {

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens special, TextPlace place) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);  // English has more than 4 bytes a token, many scripts fewer than 3
  encode_append(text, ids, special, place);
  return ids;
}

bool has_tokenizer(const std::filesystem::path& folder) {
  return SentencePiece::has_model(folder) || has_byte_level_files(folder);
}

TokenizerPtr load_tokenizer(const std::string& path) {
  if (const auto model = SentencePiece::find_model(path); !model.empty())
    return std::make_shared<const SentencePiece>(SentencePiece::load(model));
  return std::make_shared<const ByteLevelBpe>(ByteLevelBpe::load(path));
}

TokenizerPtr tokenizer_of_state(std::string_view state, const std::string& name) {
  if (is_packed(state))
    if (const NamedFiles files = named(unpack(state, name), name + ": "); SentencePiece::is_kind_of(files))
      return std::make_shared<const SentencePiece>(files);
  return std::make_shared<const ByteLevelBpe>(ByteLevelBpe::from_state(state, name));
}

}  // namespace pipeline::tokenizer
