// A small vision-language job: drawings of coloured shapes, questions about them with and without a picture,
// and a model of a few thousand parameters whose vision encoder is frozen.
#pragma once

#include <array>
#include <string>

#include "tests/e2e/job.hpp"
#include "tests/support/png.hpp"

namespace pipeline::tests {

inline const std::string kVlmConfig = reproducible_run("vlm") + R"(freeze = ["vision.*"]
data = { train = "train.json", val = "val.json", test = "test.json" }
vision = { image_size = 16, patch_size = 8, hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 32, resize = "pad" }
language = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 96 }
tokenizer.vocab_size = 300
chat.max_tokens = 80
generate = { max_tokens = 6, validate_samples = 4 }
)";

inline constexpr std::array kColours{"red", "green", "blue", "black"};
inline constexpr std::array kShapes{"square", "bar"};

// Number i of the drawings; what it shows is a function of i.
inline std::string colour_of(int i) { return kColours[static_cast<size_t>(i) % kColours.size()]; }
inline std::string shape_of(int i) { return kShapes[static_cast<size_t>(i / 4) % kShapes.size()]; }

inline void draw(const std::filesystem::path& path, int i) {
  const int width = 17 + i % 5, height = 13 + i % 7;
  std::vector<uint8_t> pixels(static_cast<size_t>(3 * width * height), 240);
  const std::array<uint8_t, 3> rgb{static_cast<uint8_t>(i % 4 == 0 ? 220 : 20),
                                   static_cast<uint8_t>(i % 4 == 1 ? 200 : 20),
                                   static_cast<uint8_t>(i % 4 == 2 ? 210 : 20)};
  for (int y = 3; y < height - 3; ++y)
    for (int x = 3; x < (shape_of(i) == "bar" ? 7 : width - 3); ++x)
      for (size_t c = 0; c < 3; ++c) pixels[static_cast<size_t>(3 * (y * width + x)) + c] = rgb[c];
  write_png(path, width, height, pixels);
}

// Two of every four conversations have no picture, so that micro-batches without one come up.
inline std::string small_conversations(int first, int count) {
  const auto turn = [](const char* from, const std::string& value) {
    return R"({"from":")" + std::string(from) + R"(","value":")" + value + "\"}";
  };
  std::string text = "[";
  for (int i = first; i < first + count; ++i) {
    const bool seen = i % 4 < 2;
    text += std::string(i == first ? "" : ",\n") + R"({"id":"c)" + std::to_string(i) + "\"";
    if (seen) text += R"(,"image":"drawings/)" + std::to_string(i) + ".png\"";
    text += R"(,"conversations":[)";
    if (seen)
      text += turn("human", "<image>\\nWhat colour?") + "," + turn("gpt", colour_of(i)) + "," +
              turn("human", "What shape?") + "," + turn("gpt", shape_of(i));
    else
      text += turn("human", "What is " + std::to_string(i) + "?") + "," + turn("gpt", "a number");
    text += "]}";
  }
  return text + "]\n";
}

class SmallVlmJob : public Job {
 public:
  static std::string config() { return kVlmConfig + kShortTraining; }

  SmallVlmJob() {
    write_text(path("train.toml"), config());
    std::filesystem::create_directories(path("drawings"));
    for (const int first : {0, 100, 200}) {
      const int count = first == 0 ? 40 : 8;
      for (int i = first; i < first + count; ++i) draw(path("drawings/" + std::to_string(i) + ".png"), i);
      write_text(path(first == 0     ? "train.json"
                      : first == 100 ? "val.json"
                                     : "test.json"),
                 small_conversations(first, count));
    }
  }
};

}  // namespace pipeline::tests
