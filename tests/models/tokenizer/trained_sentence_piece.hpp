#pragma once

#include <sentencepiece_trainer.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace pipeline::tests {

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  bool done() const override { return at_ == texts_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return texts_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> texts_{"the cat sat on the mat", "a cat and a dog, the dog and the cat",
                                  "what is this? this is a hat", "where is the dog? on the mat", "über 猫"};
  size_t at_ = 0;
};

// The bytes of a tokenizer.model of 330 tokens, made as Llama's is: pairs of letters, bytes for what is
// unknown, spaces as they are.
inline std::string trained_sentence_piece(const std::string& more = "") {
  std::string model;
  Sentences sentences;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      more +  // first: of an option that is given twice, the first counts
          " --model_type=bpe --vocab_size=330 --byte_fallback=true --normalization_rule_name=identity "
          "--remove_extra_whitespaces=false --character_coverage=0.99 --minloglevel=2",
      &sentences, &model);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return model;
}

}  // namespace pipeline::tests
