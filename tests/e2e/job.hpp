// A job in a folder of its own, run as a user would: train.toml and what it names.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/e2e/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {

// A few steps with evaluations and checkpoints in between: the end of a job's configuration.
inline constexpr const char* kShortTraining = R"([optimizer]
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

// A small run of the plugins in plain C, a task that fits a line and a strategy that does SGD: the beginning
// of its configuration, with what [run] has more.
inline std::string linear_run(const std::string& of_run = "") {
  return "[run]\ndir = \"run\"\ndevice = \"cpu\"\n" + of_run + R"([task]
plugin = "linear_regression"
[strategy]
plugin = "plain_sgd"
[optimizer]
kind = "sgd"
lr = 0.05
)";
}

// A run with bits that are the same everywhere, of a task: the beginning of its configuration, up to the
// task's options.
inline std::string reproducible_run(const std::string& task) {
  return R"([run]
dir = "run"
cache_dir = "cache"
device = "cpu"
reproducible = true
[task]
plugin = ")" +
         task + "\"\n";
}

inline nlohmann::json read_json(const std::filesystem::path& file) {
  return nlohmann::json::parse(read_text(file));
}
inline std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : read_lines(file)) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class Job {
 public:
  std::filesystem::path folder() const { return folder_.path(); }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  // In this folder: any command, or a verb's of train.toml.
  Result pipeline(const Words& words) const { return tests::pipeline(words, folder()); }
  Result call(const std::string& verb, const Words& more = {}) const {
    return pipeline(Words{verb, "train.toml"} + more);
  }
  Process start(const std::string& verb, const Words& more = {}) const {
    return Process(pipeline_command(Words{verb, "train.toml"} + more), folder());
  }
  // Step, loss and gradient norm of every step, as written.
  std::vector<std::string> curve(const std::string& run) const {
    std::vector<std::string> lines;
    for (const auto& json : read_json_lines(path(run + "/metrics.jsonl"))) {
      lines.push_back(json["step"].dump() + " " + json["loss"].dump() + " " + json["grad_norm"].dump());
    }
    if (lines.empty())
      throw std::runtime_error(run + ": has no step");  // two runs without steps would be equal
    return lines;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace pipeline::tests
