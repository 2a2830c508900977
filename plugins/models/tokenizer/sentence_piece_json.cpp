#include "tokenizer/sentence_piece_json.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer_json_parts.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using sentencepiece::SentencePieceProcessor;

// "left right" for all pairs of pieces that make a piece, the best piece first. The library has no list of
// them: it merges the neighbours that give the best piece, and of equals the leftmost.
json merges_of(const SentencePieceProcessor& model) {
  std::vector<std::string> pieces;
  std::vector<int> order;
  std::unordered_set<std::string> known;
  std::vector<bool> has_length;  // a known one: most places to cut a long piece at need no look at its text
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    pieces.push_back(model.IdToPiece(id));
    if (model.IsControl(id) || model.IsUnknown(id) || model.IsByte(id) || model.IsUnused(id)) continue;
    order.push_back(id);
    known.insert(pieces.back());
    has_length.resize(std::max(has_length.size(), pieces.back().size() + 1));
    has_length[pieces.back().size()] = true;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return model.GetScore(a) > model.GetScore(b); });
  json merges = json::array();
  for (const int id : order) {
    const std::string& piece = pieces[static_cast<size_t>(id)];
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if (!has_length[cut] || !has_length[piece.size() - cut]) continue;
      if ((piece[cut] & 0xc0) == 0x80) continue;  // within a character
      std::string left = piece.substr(0, cut), right = piece.substr(cut);
      if (known.contains(left) && known.contains(right))
        merges.push_back({std::move(left), std::move(right)});
    }
  }
  return merges;
}

json added_tokens(std::span<const AddedTokens::Token> special) {
  json tokens = json::array();
  for (const auto& [text, id, how] : special) tokens.push_back(format_added(id, text, how));
  return tokens;
}

// Puts `token` before every text.
json begin_with(const std::string& token, int32_t id) {
  const auto part = [](const char* kind, const std::string& name, int type) {
    return json{{kind, {{"id", name}, {"type_id", type}}}};
  };
  const json start = part("SpecialToken", token, 0), first = part("Sequence", "A", 0);
  return {{"type", "TemplateProcessing"},
          {"single", {start, first}},
          {"pair", {start, first, part("SpecialToken", token, 1), part("Sequence", "B", 1)}},
          {"special_tokens",
           {{token, {{"id", token}, {"ids", json::array({id})}, {"tokens", json::array({token})}}}}}};
}

// The signs, and the one before a text, but not after a special token.
json space_before_the_first() {
  return {{"type", "Metaspace"}, {"replacement", kSpaceSign}, {"prepend_scheme", "first"}, {"split", false}};
}

}  // namespace

json sentence_piece_normalizer(bool adds_space) {
  json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceSign}};
  if (!adds_space) return replace;
  const json prepend = {{"type", "Prepend"}, {"prepend", kSpaceSign}};
  return {{"type", "Sequence"}, {"normalizers", json::array({prepend, std::move(replace)})}};
}

json sentence_piece_decoder(bool adds_space) {
  json parts = {{{"type", "Replace"}, {"pattern", {{"String", kSpaceSign}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (adds_space) parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(parts)}};
}

std::string format_tokenizer_json(const SentencePieceModel& model,
                                  std::span<const AddedTokens::Token> special, int32_t begin,
                                  TextPlace after_special) {
  const SentencePieceProcessor& pieces = *model.start;
  const bool goes_on = model.adds_space && after_special == TextPlace::kWithin;
  json vocabulary = json::object();
  bool has_bytes = false;
  for (int id = 0; id < pieces.GetPieceSize(); ++id) {
    vocabulary[pieces.IdToPiece(id)] = id;
    has_bytes = has_bytes || pieces.IsByte(id);
  }
  const json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added_tokens(special)},
                     {"normalizer", goes_on ? json() : sentence_piece_normalizer(model.adds_space)},
                     {"pre_tokenizer", goes_on ? space_before_the_first() : json()},
                     {"post_processor", begin < 0 ? json() : begin_with(pieces.IdToPiece(begin), begin)},
                     {"decoder", sentence_piece_decoder(model.adds_space)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", pieces.IdToPiece(pieces.unk_id())},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", true},
                       {"byte_fallback", has_bytes},
                       {"ignore_merges", false},
                       {"vocab", std::move(vocabulary)},
                       {"merges", merges_of(pieces)}}}};
  return file.dump();
}

}  // namespace pipeline::tokenizer
