// Texts with labels as samples of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/records/label_scale.hpp"
#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/stores/token_store.hpp"

namespace pipeline::tasks::labels {

using stores::TokenSample;

enum class Kind { kClass, kSeveral, kNumber, kTags };  // kTags: a class for each word

// How labels are written.
struct Reader {
  Kind kind;
  std::string column, missing;
  std::vector<std::string> classes;  // of the user

  // Equal where the same texts are the same labels.
  std::string key() const;
  // Whether a text, or with kTags the one of a word, stands for no label.
  bool is_none(std::string_view text) const;
  // A label as it is kept: whole numbers without a fraction, where classes are meant.
  std::string written(std::string_view text) const;
  // What cannot be learnt from a label that is one; empty: it can.
  std::string problem_of(std::string_view text) const;
};

// What labels mean to a model with these classes: one by its name, or, where no class is called by a number,
// by its number, from 0 on.
class ClassNames {
 public:
  ClassNames() = default;
  explicit ClassNames(const std::vector<std::string>& names);

  std::optional<size_t> number_of(const std::string& label) const;
  // The name of the class; the label itself where it means none.
  std::string meant(const std::string& label) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, size_t> numbers_;
  bool are_counted_ = false;
};

// The parts of a list as records::Column::kWords has it or Python prints it, or of a text: what commas
// divide; or, where `are_words`, what white space does.
std::vector<std::string> parts_of(std::string_view text, bool are_words);

// How a text becomes tokens.
struct Encoder {
  std::function<std::vector<int32_t>(std::string_view text)> encode;
  std::function<std::vector<int32_t>(std::string_view text)> encode_within;  // behind other text
  uint32_t vocabulary_size;
};

// Reads the samples of a source: its first texts, its labels as second ones and, where it has an extra
// column, the texts that follow. What has a label that says nothing is left out, unless it may lack one.
// Throws DataError where a label is none of its kind. [any-thread]
stores::TokenReport read_samples(const records::PairSource& source, const Reader& labels,
                                 const Encoder& encoder, const files::Hooks& hooks,
                                 const stores::TokenSink& add);

std::string name_of(const TokenSample& sample);
// The label as it is written; nothing: it has none.
std::optional<std::string> label_of(const TokenSample& sample);
// The text, as it is written.
std::string text_of(const TokenSample& sample);

// What stands around texts.
struct Frame {
  std::optional<int32_t> begin;  // before each text; of an encoder before the first
  std::optional<int32_t> end;    // of an encoder: behind each text
  bool parts_twice = false;      // between two texts there are two ends

  // How many tokens that takes.
  int64_t size(bool has_second) const {
    if (!end) return begin ? (has_second ? 2 : 1) : 0;
    return (begin ? 1 : 0) + (has_second ? (parts_twice ? 3 : 2) : 1);
  }
};
// What the model reads, at most so many tokens: of one text or of both.
struct Framed {
  std::vector<int64_t> tokens;
  int64_t second = 0;  // where the second text begins; the size: there is none
};
Framed framed(const TokenSample& sample, const Frame& frame, int64_t most);
bool is_cut(const TokenSample& sample, const Frame& frame, int64_t most);
// With kTags: the row of each word that is whole within so many tokens, of an encoder that of its first
// token, else that of its last, at which a causal model has read the word.
std::vector<int64_t> word_rows(const TokenSample& sample, const Frame& frame, int64_t most);

}  // namespace pipeline::tasks::labels
