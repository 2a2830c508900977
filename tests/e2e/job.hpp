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

class Job {
 public:
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
    if (lines.empty())
      throw std::runtime_error(run + ": has no step");  // two runs without steps would be equal
    return lines;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace pipeline::tests
