#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <sys/types.h>

#include "pipeline.h"

namespace pipeline::plugins {

// Why a file is no shared library that this program can load, as its headers show: it is of another machine,
// cut off, or something else. Empty: they show nothing wrong. The linker passes over such a file and says
// that there is none; of one that is cut off it may touch what is not there, which ends the process.
std::string elf_problem(const std::filesystem::path& file);

enum class Kind : uint32_t {
  kTask = PL_PLUGIN_TASK,
  kStrategy = PL_PLUGIN_STRATEGY,
  kBackend = PL_PLUGIN_BACKEND,
  kOptimizer = PL_PLUGIN_OPTIMIZER
};

// task.plugin of a class in Python, which no library has: the user's Python brings it.
inline constexpr const char* kPythonTask = "python";

inline constexpr std::array kKinds{Kind::kTask, Kind::kStrategy, Kind::kBackend, Kind::kOptimizer};

// "task"; also the configuration table that names such a plugin.
constexpr std::string_view kind_name(Kind kind) {
  return kind == Kind::kTask       ? "task"
         : kind == Kind::kStrategy ? "strategy"
         : kind == Kind::kBackend  ? "backend"
                                   : "optimizer";
}

constexpr std::optional<Kind> kind_called(std::string_view name) {
  for (const Kind kind : kKinds)
    if (kind_name(kind) == name) return kind;
  return std::nullopt;
}

// The sub-folder of a plugin folder.
constexpr std::string_view kind_folder(Kind kind) {
  return kind == Kind::kTask       ? "tasks"
         : kind == Kind::kStrategy ? "strategies"
         : kind == Kind::kBackend  ? "backends"
                                   : "optimizers";
}

// A loaded plugin whose table has been negotiated and checked. Lives until the process ends: libraries are
// never unloaded.
class Plugin {
 public:
  // Loads the file, or returns the plugin if it is already loaded. Throws Error with one message that says
  // which file, what is wrong with it and what to do. A link counts under its own name: NAME.so may point
  // to any file. [main]
  static const Plugin& load(const std::filesystem::path& file);

  // Adds a plugin that is code of this process itself, not a library: a task in Python. It takes the place of
  // an earlier one of its kind and name. `file`: where that code is, for messages. Throws as load() does.
  // [main]
  static const Plugin& add(pl_plugin_entry_fn entry, const std::filesystem::path& file);
  // Returns what add() added last of this kind and name, or with the code of this file; nullptr: nothing.
  static const Plugin* in_process(Kind kind, std::string_view name);
  static const Plugin* in_process(const std::filesystem::path& file);

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& summary() const { return summary_; }
  const std::string& runtime() const { return runtime_; }  // e.g. "torch 2.11.0+cu130 cxx11-abi"; empty: none
  const std::filesystem::path& path() const { return path_; }
  const std::string& label() const { return label_; }  // "task summarization"
  uint32_t abi_minor() const { return table_.abi_minor; }

  // The plugin's options, copied to the struct size that this program knows, so that they can be indexed.
  std::span<const pl_option> options() const { return options_; }

  // The table of its kind, copied to the size that this program knows; a missing slot is NULL.
  const pl_task_api& task() const { return task_; }
  const pl_strategy_api& strategy() const { return strategy_; }
  const pl_backend_api& backend() const { return backend_; }
  const pl_optimizer_api& optimizer() const { return optimizer_; }

  // Returns the table of an extension, or NULL.
  const void* query(std::string_view extension) const;
  // The extension pl.runtime/1: slots that the plugin lacks are NULL.
  pl_runtime runtime_extension() const;

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

 private:
  friend void shutdown_plugins();
  static const Plugin& load_once(const std::filesystem::path& file);
  Plugin(std::filesystem::path path, const pl_plugin& table);
  void negotiate_api(const void* api);

  std::filesystem::path path_;
  pl_plugin table_{};
  Kind kind_{};
  std::string name_, version_, summary_, runtime_, label_;
  std::vector<pl_option> options_;
  pl_task_api task_{};
  pl_strategy_api strategy_{};
  pl_backend_api backend_{};
  pl_optimizer_api optimizer_{};
};

// Makes the last call into every loaded plugin, in reverse order of loading. Use none afterwards. [main]
void shutdown_plugins();

// What a plugin is held against when it is loaded.

// Returns why `user` must not run this file's code: root may run only what no other user can change, or
// whoever can would be root. Empty: nothing is wrong.
std::string trust_problem(const struct stat& file, uid_t user);

// Returns what is wrong with an API table (a copy of the size that this program knows, of which the plugin
// provided `received` bytes): a missing required slot, or an incomplete group of slots. Empty: nothing is
// wrong.
std::string slot_problem(Kind kind, const void* api, uint32_t received);

// Returns the options that a plugin publishes, copied to the struct size that this program knows. Throws
// Error for a schema that contradicts itself: the author's mistake, which would otherwise look like the
// user's.
std::vector<pl_option> copy_options(const pl_plugin& table);

}  // namespace pipeline::plugins
