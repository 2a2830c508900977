// A small summarization job: a few pairs in several scripts and a model of a few thousand parameters, with dropout and accumulation.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/e2e/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {

inline constexpr const char* kSmallConfig = R"([run]
dir = "run"
cache_dir = "cache"
reproducible = true
[task]
plugin = "summarization"
data = { train = "train.jsonl", val = "val.jsonl", test = "test.csv" }
tokenizer.vocab_size = 300
model = { n_layer = 2, n_head = 2, n_embd = 16, n_positions = 64, resid_pdrop = 0.1, attn_pdrop = 0.1, embd_pdrop = 0.1 }
sequence = { max_tokens = 48, max_summary_tokens = 16, loss = "all" }
generate.max_tokens = 8
rouge = { validate_samples = 4, evaluate_samples = 4 }
[optimizer]
lr = 1e-2
[schedule]
kind = "constant"
[train]
global_batch = 8
micro_batch = 2
max_steps = 12
[evaluate]
every = 6
[checkpoint]
every = 5
)";

inline std::string small_pairs(int first, int count) {
  static constexpr const char* kTexts[] = {"the quick brown fox jumps over the lazy dog", "прыгает через ленивую собаку", "素早い茶色の狐",
                                           "der schnelle braune Fuchs, \\\"springt\\\"", "emoji 🦊🐕 and e\\u0301 combining"};
  std::string text;
  for (int i = first; i < first + count; ++i) {
    const std::string body = kTexts[i % 5];
    text += R"({"id":"p)" + std::to_string(i) + R"(","document":")" + body + " number " + std::to_string(i) + R"(","summary":")" + body.substr(0, i % 5 == 0 ? 9 : body.size()) + "\"}\n";
  }
  return text;
}

// The job in a folder of its own, run as a user would.
class SmallJob {
 public:
  SmallJob() {
    write_text(path("train.toml"), kSmallConfig);
    write_text(path("train.jsonl"), small_pairs(0, 40));
    write_text(path("val.jsonl"), small_pairs(100, 6));
    write_text(path("test.csv"), "id,document\nx1,\"a, quoted\ntext\"\nx2,素早い茶色の狐\nx3,\"" + std::string(3000, 'w') + "\"\n");
  }
  std::filesystem::path folder() const { return folder_.path(); }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  Result call(const std::string& verb, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {verb, "train.toml"});
    return pipeline(std::move(more), folder_.path());
  }
  // Step, loss and gradient norm of every step, as written.
  std::vector<std::string> curve(const std::string& run) const {
    std::vector<std::string> lines;
    for (const std::string& line : read_lines(path(run + "/metrics.jsonl"))) {
      const auto json = nlohmann::json::parse(line);
      lines.push_back(json["step"].dump() + " " + json["loss"].dump() + " " + json["grad_norm"].dump());
    }
    return lines;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace pipeline::tests
