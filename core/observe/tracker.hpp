// A run at a tracker of experiments. The tracker's own Python package does the work, in a child process
// (tracker_client.py) that reads the run folder's .jsonl files as they grow: it can neither block the
// training nor end it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/descriptor.hpp"

namespace pipeline::observe {

class Tracker {
 public:
  struct Service {
    std::string_view name;    // for people
    std::string_view key;     // of the option observe.KEY, its log, and its folder in the run's
    std::string_view script;  // the class Tracker of tracker_client.py
    std::string_view advice;  // if its server does not answer
  };
  static const Service kWandb, kMlflow;

  struct Options {
    const Service* service = nullptr;
    std::filesystem::path folder;  // of the run
    std::string uri;               // of MLflow's server or database; "": what MLFLOW_TRACKING_URI says
    std::string project;           // "": what WANDB_PROJECT or MLFLOW_EXPERIMENT_NAME says
    std::string name;              // of the run there
    bool continued = false;        // the run that `folder` is there already, if it is one; else a new one
    nlohmann::ordered_json config;
    std::function<bool()> cancelled;  // true: wait no longer
  };

  // Starts the client and waits until the tracker has accepted the run. The .jsonl files must have been cut
  // back before. Throws Error: what is missing, and what to do.
  explicit Tracker(const Options& options);
  // Without say_end(): the run has failed. The client finds that out by itself, also where this process is
  // killed, and copies what is left.
  ~Tracker();
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  // Whether the client has ended on its own; to be asked until it has.
  bool died();
  // Tells the client that the run is over: finished, or stopped by a signal.
  void say_end(bool finished);
  // Waits for the client after say_end(), at most so long.
  enum class End { uploaded, failed, still_uploading };
  End wait(std::chrono::seconds limit);
  const Service& service() const { return service_; }
  // What the client and the package print.
  const std::filesystem::path& log() const { return log_; }

 private:
  std::string answer(const std::function<bool()>& cancelled);

  const Service& service_;
  std::filesystem::path log_;
  pid_t client_ = -1;
  Descriptor input_, report_;  // what it is told, and its one line of answer
};

}  // namespace pipeline::observe
