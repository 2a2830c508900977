#include "tokenizer/sentence_piece_model.hpp"

#include <dlfcn.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_json_parts.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using sentencepiece::SentencePieceProcessor;

// The fields of a message of Protocol Buffers; see sentencepiece_model.proto. The library hides what a
// model's options are, and takes a file that ends early for a smaller model.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  // False at the end, or where the message is damaged.
  bool next() {
    const auto tag = varint();
    if (!tag) return false;
    number_ = *tag >> 3;
    const uint64_t kind = *tag & 7;
    bytes_ = {};
    if (kind == 0) return take_value(varint());
    if (kind == 1) return take(8);
    if (kind == 5) return take(4);
    const auto size = kind == 2 ? varint() : std::nullopt;
    return size && take(*size);
  }
  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }
  bool at_end() const { return rest_.empty() && !damaged_; }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
      const auto byte = static_cast<uint8_t>(rest_[i]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte >= 0x80) continue;
      rest_.remove_prefix(i + 1);
      return value;
    }
    damaged_ = !rest_.empty();
    return std::nullopt;
  }
  bool take_value(std::optional<uint64_t> value) {
    value_ = value.value_or(0);
    return value.has_value();
  }
  bool take(uint64_t size) {
    damaged_ = size > rest_.size();
    if (damaged_) return false;
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_, bytes_;
  uint64_t number_ = 0, value_ = 0;
  bool damaged_ = false;
};

// Options in the parts of ModelProto that are written behind the pieces.
struct Options {
  bool has_trainer = false, has_normalizer = false;
  bool adds_space = true, space_is_suffix = false, trims_spaces = true, replaces_characters = false;
  bool is_bpe = false;
};

Options read_options(const NamedText& file) {
  constexpr uint64_t kTrainer = 2, kKind = 3, kSpaceIsSuffix = 24;
  constexpr uint64_t kNormalizer = 3, kCharacters = 2, kAddsSpace = 3, kTrimsSpaces = 4;
  constexpr uint64_t kBpe = 2;
  Options options;
  Fields fields(file.text);
  while (fields.next()) {
    if (fields.number() == kTrainer) {
      options.has_trainer = true;
      for (Fields trainer(fields.bytes()); trainer.next();) {
        if (trainer.number() == kKind) options.is_bpe = trainer.value() == kBpe;
        if (trainer.number() == kSpaceIsSuffix) options.space_is_suffix = trainer.value() != 0;
      }
    } else if (fields.number() == kNormalizer) {
      options.has_normalizer = true;
      for (Fields normalizer(fields.bytes()); normalizer.next();) {
        if (normalizer.number() == kCharacters) options.replaces_characters = !normalizer.bytes().empty();
        if (normalizer.number() == kAddsSpace) options.adds_space = normalizer.value() != 0;
        if (normalizer.number() == kTrimsSpaces) options.trims_spaces = normalizer.value() != 0;
      }
    }
  }
  if (!fields.at_end() || !options.has_trainer || !options.has_normalizer)
    throw TokenizerError(file.path + ": is not a SentencePiece model, or not the whole of one: " +
                         std::to_string(file.text.size()) + " bytes: copy it again");
  if (options.space_is_suffix)
    throw TokenizerError(file.path +
                         ": has spaces at the ends of words (treat_whitespace_as_suffix): only models " +
                         "with spaces before words, as Llama's, are read here");
  return options;
}

// libsentencepiece, loaded by itself. It has a variable of 32 bytes, FLAGS_minloglevel, and so has LibTorch's
// libc10, of 4: in a plugin that is linked with both, the two are one, and c10's flags behind it are
// overwritten. Most of the processor's functions are virtual; these are the others that are needed, and one
// whose body is in the header, where it needs another of the library's.
class Library {
 public:
  // Throws TokenizerError where the library is not installed.
  static const Library& get() {
    static const Library library;
    return library;
  }

  std::shared_ptr<const SentencePieceProcessor> load(const NamedText& file) const {
    void* memory = ::operator new(sizeof(SentencePieceProcessor));
    construct_(memory);
    const std::shared_ptr<SentencePieceProcessor> processor(static_cast<SentencePieceProcessor*>(memory));
    const Status status = load_(processor.get(), file.text);
    if (status.rep == nullptr) return processor;
    const std::string message = message_(&status);
    destroy_(&status);
    throw TokenizerError(file.path + ": is not a SentencePiece model: " + message);
  }

  std::vector<int> encode(const SentencePieceProcessor& processor, std::string_view text) const {
    return encode_(&processor, text);
  }

 private:
  // sentencepiece::util::Status, whose destructor is in the library; returned in the same way.
  struct Status {
    const void* rep;  // null: all is well
    ~Status() {}      // NOLINT(modernize-use-equals-default): a trivial one is returned in another way
  };
  static_assert(sizeof(Status) == sizeof(sentencepiece::util::Status));

  Library() {
#ifdef PIPELINE_SANITIZES_ADDRESS
    constexpr int kOwnSymbolsFirst = 0;  // the sanitizer refuses it
#else
    constexpr int kOwnSymbolsFirst = RTLD_DEEPBIND;
#endif
    library_ = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | kOwnSymbolsFirst);
    if (library_ == nullptr)
      throw TokenizerError(std::string(::dlerror()) +
                           ": install it (libsentencepiece0), or use a tokenizer.json");
    find(construct_, "_ZN13sentencepiece22SentencePieceProcessorC1Ev");
    find(
        load_,
        "_ZN13sentencepiece22SentencePieceProcessor23LoadFromSerializedProtoESt17basic_string_viewIcSt11char_"
        "traitsIcEE");
    find(encode_,
         "_ZNK13sentencepiece22SentencePieceProcessor11EncodeAsIdsESt17basic_string_viewIcSt11char_"
         "traitsIcEE");
    find(message_, "_ZNK13sentencepiece4util6Status13error_messageEv");
    find(destroy_, "_ZN13sentencepiece4util6StatusD1Ev");
  }

  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (function == nullptr) throw TokenizerError(std::string(kName) + ": " + ::dlerror());
  }

  static constexpr const char* kName = "libsentencepiece.so.0";
  void* library_ = nullptr;
  void (*construct_)(void*) = nullptr;
  Status (*load_)(SentencePieceProcessor*, std::string_view) = nullptr;
  std::vector<int> (*encode_)(const SentencePieceProcessor*, std::string_view) = nullptr;
  const char* (*message_)(const Status*) = nullptr;
  void (*destroy_)(const Status*) = nullptr;
};

// The bytes that a piece stands for.
std::string bytes_of(const SentencePieceProcessor& model, int id) {
  const std::string& piece = model.IdToPiece(id);
  if (model.IsControl(id) || model.IsUnknown(id)) return piece;
  if (model.IsByte(id))  // "<0x0A>"
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  return with_spaces(piece);
}

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

// The signs, and the one before a text, but not after a special token.
json space_before_the_first() {
  return {{"type", "Metaspace"}, {"replacement", kSpaceSign}, {"prepend_scheme", "first"}, {"split", false}};
}

}  // namespace

std::vector<int> SentencePieceModel::encode(std::string_view text, TextPlace place) const {
  return Library::get().encode(*(place == TextPlace::kStart ? start : within), text);
}

SentencePieceModel::SentencePieceModel(const NamedText& file) {
  const Options options = read_options(file);
  adds_space = options.adds_space;
  is_llamas = options.is_bpe && !options.trims_spaces && !options.replaces_characters;
  start = Library::get().load(file);
  // A message that is appended to one overrides what it says: add_dummy_prefix and remove_extra_whitespaces
  // of the normalizer, both false.
  constexpr std::string_view kKeepSpaces("\x1a\x04\x18\x00\x20\x00", 6);
  within = Library::get().load({file.path, file.text + std::string(kKeepSpaces)});
  for (int id = 0; id < start->GetPieceSize(); ++id) {
    is_special.push_back(start->IsControl(id) || start->IsUnknown(id));
    bytes.push_back(bytes_of(*start, id));
  }
  unknown = start->unk_id();
  begin = start->bos_id();
  end = start->eos_id();
}

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
