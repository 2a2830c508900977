#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace pipeline::plugins {

enum class Outcome { kPassed, kFailed, kSkipped };

struct Check {
  std::string name;  // what is promised: "its entry can be called twice"
  Outcome outcome = Outcome::kPassed;
  std::string detail;  // what went wrong, or why it was skipped
};

struct CheckReport {
  std::string label;  // "task summarization 1.0"; empty when it does not load
  std::vector<Check> checks;
  std::string text;  // for people: the path, one line a check, then a summary

  bool passed() const;
};

struct CheckArgs {
  std::filesystem::path plugin;  // NAME.so
  std::string config;  // a configuration file whose [task], [strategy] or [backend] is for this plugin;
                       // empty: defaults
  std::vector<std::string> sets;    // as with --set
  std::chrono::seconds limit{120};  // for each check
};

// Checks that a plugin keeps the promises of pipeline.h. Each check runs in a process of its own with a time
// limit, so that a plugin that crashes, hangs or prints fails that check alone. A task is trained for a step
// when the configuration allows it: when no option is required, or with `config`. To be called while this
// process has one thread. `tell` receives each line of the text as soon as it is known, for a person who
// waits. [main]
CheckReport check_plugin(
    const CheckArgs& args,
    const std::function<void(const std::string& line)>& tell = [](const std::string&) {});

}  // namespace pipeline::plugins
