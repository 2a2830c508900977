#include "tokenizer/sentence_piece_model.hpp"

#include <sentencepiece_processor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "tokenizer/tokenizer.hpp"

namespace pipeline::text {
namespace {

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

// Of ModelProto: the parts that are written behind the pieces.
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
    throw Error(file.path + ": is not a SentencePiece model, or not the whole of one: " +
                std::to_string(file.text.size()) + " bytes: copy it again");
  if (options.space_is_suffix)
    throw Error(file.path + ": has spaces at the ends of words (treat_whitespace_as_suffix): only models " +
                "with spaces before words, as Llama's, are read here");
  return options;
}

std::shared_ptr<const sentencepiece::SentencePieceProcessor> load_model(const std::string& bytes,
                                                                        const std::string& path) {
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(bytes);
  if (!status.ok()) throw Error(path + ": is not a SentencePiece model: " + status.error_message());
  return processor;
}

}  // namespace

SentencePieceModel::SentencePieceModel(const NamedText& file) {
  const Options options = read_options(file);
  adds_space = options.adds_space;
  is_llamas = options.is_bpe && !options.trims_spaces && !options.replaces_characters;
  start = load_model(file.text, file.path);
  // A message that is appended to one overrides what it says: add_dummy_prefix and remove_extra_whitespaces
  // of the normalizer, both false.
  constexpr std::string_view kKeepSpaces("\x1a\x04\x18\x00\x20\x00", 6);
  within = load_model(file.text + std::string(kKeepSpaces), file.path);
}

}  // namespace pipeline::text
