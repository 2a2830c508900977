// A small contrastive job: drawings of coloured shapes with captions, one of them missing, and towers of a
// few thousand parameters.
#pragma once

#include <string>

#include "tests/e2e/vlm_job.hpp"

namespace pipeline::tests {

inline const std::string kContrastiveConfig = reproducible_run("contrastive") + R"(projection_dim = 16
logit_scale = 0.5
data = { train = "train.jsonl", val = "val.jsonl", test = "test.jsonl", max_broken_share = 0.1 }
vision = { image_size = 16, patch_size = 8, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 32, initializer_range = 0.2, resize = "pad" }
text = { max_position_embeddings = 20, hidden_size = 24, num_hidden_layers = 2, num_attention_heads = 4, intermediate_size = 32, initializer_range = 0.2 }
tokenizer.vocab_size = 300
)";

inline std::string small_captions(int first, int count) {
  std::string captions;
  for (int i = first; i < first + count; ++i)
    captions += R"({"id":"d)" + std::to_string(i) + R"(","image":"drawings/)" + std::to_string(i) +
                R"(.png","caption":"a )" + colour_of(i) + " " + shape_of(i) + ", number " +
                std::to_string(i) + "\"}\n";
  return captions;
}

class SmallContrastiveJob : public Job {
 public:
  static std::string config() { return kContrastiveConfig + kShortTraining; }
  static constexpr bool kPredicts = false;

  SmallContrastiveJob() {
    write_text(path("train.toml"), config());
    std::filesystem::create_directories(path("drawings"));
    for (const int first : {0, 100, 200}) {
      const int count = first == 0 ? 43 : 12;  // the last step of an epoch has three pairs
      for (int i = first; i < first + count; ++i)
        if (i != 17) draw(path("drawings/" + std::to_string(i) + ".png"), i);
      write_text(path(first == 0     ? "train.jsonl"
                      : first == 100 ? "val.jsonl"
                                     : "test.jsonl"),
                 small_captions(first, count));
    }
  }
};

}  // namespace pipeline::tests
