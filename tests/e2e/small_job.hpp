// A small summarization job: a few pairs in several scripts and a model of a few thousand parameters, with
// dropout and accumulation.
#pragma once

#include <string>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {

inline const std::string kSmallConfig =
    reproducible_run("summarization") +
    R"(data = { train = "train.jsonl", val = "val.jsonl", test = "test.csv" }
tokenizer.vocab_size = 300
language = { num_hidden_layers = 2, num_attention_heads = 2, hidden_size = 16, max_position_embeddings = 64, dropout = 0.1 }
sequence = { max_tokens = 48, max_summary_tokens = 16, loss = "all" }
generate.max_tokens = 8
rouge = { validate_samples = 4, evaluate_samples = 4 }
)";

inline std::string small_pairs(int first, int count) {
  static constexpr const char* kTexts[] = {
      "the quick brown fox jumps over the lazy dog", "прыгает через ленивую собаку", "素早い茶色の狐",
      "der schnelle braune Fuchs, \\\"springt\\\"", "emoji 🦊🐕 and e\\u0301 combining"};
  std::string text;
  for (int i = first; i < first + count; ++i) {
    const std::string body = kTexts[i % 5];
    text += R"({"id":"p)" + std::to_string(i) + R"(","document":")" + body + " number " + std::to_string(i) +
            R"(","summary":")" + body.substr(0, i % 5 == 0 ? 9 : body.size()) + "\"}\n";
  }
  return text;
}

class SmallJob : public Job {
 public:
  static std::string config() { return kSmallConfig + kShortTraining; }

  SmallJob() {
    write_text(path("train.toml"), config());
    write_text(path("train.jsonl"), small_pairs(0, 41));  // the last step of an epoch has one pair
    write_text(path("val.jsonl"), small_pairs(100, 6));
    write_text(path("test.csv"), "id,document\nx1,\"a, quoted\ntext\"\nx2,素早い茶色の狐\nx3,\"" +
                                     std::string(3000, 'w') + "\"\n");
  }
};

}  // namespace pipeline::tests
