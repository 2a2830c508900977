// A run at Weights & Biases. W&B's own Python package does the work, in a child process (wandb_client.py)
// that reads the run folder's .jsonl files as they grow: it can neither block the training nor end it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/descriptor.hpp"

namespace pipeline::observe {

class Wandb {
 public:
  struct Options {
    std::filesystem::path folder;  // of the run; W&B's own files go to `wandb` in it
    std::string project;           // "": what WANDB_PROJECT says
    std::string name;              // of the run there
    bool continued = false;        // the run that `folder` is there already, if it is one; else a new one
    nlohmann::ordered_json config;
    std::function<bool()> cancelled;  // true: wait no longer
  };

  // Starts the client and waits until W&B has accepted the run. The .jsonl files must have been cut back
  // before. Throws Error: what is missing, and what to do.
  explicit Wandb(const Options& options);
  // Without finish(): the run has failed. The client finds that out by itself, also where this process is
  // killed.
  ~Wandb();
  Wandb(const Wandb&) = delete;
  Wandb& operator=(const Wandb&) = delete;

  // Whether the client has ended on its own; to be asked until it has.
  bool died();
  // Tells the client that the run is over, and waits for it at most so long.
  enum class End { uploaded, failed, still_uploading };
  End finish(std::chrono::seconds limit);
  // What it and W&B print.
  const std::filesystem::path& log() const { return log_; }

 private:
  std::string answer(const std::function<bool()>& cancelled);

  std::filesystem::path log_;
  pid_t client_ = -1;
  Descriptor input_, report_;  // what it is told, and its one line of answer
};

}  // namespace pipeline::observe
