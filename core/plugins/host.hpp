#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/abi_values.hpp"
#include "pipeline.h"

// What one plugin object sees of its run. The core creates one pl_context per plugin object; it outlives
// that object. Callbacks are set before the object is created and not changed afterwards; an unset one does
// nothing. `log`, `progress` and `cancelled` are called from any thread. An exception from a callback
// cannot pass through the plugin: the wrapper (plugins::Task ...) throws it when the slot that made the
// call returns. On a thread that the plugin started there is no such slot: the exception is logged.
struct pl_context {
  explicit pl_context(std::string plugin_label) : plugin(std::move(plugin_label)) {}
  pl_context(const pl_context&) = delete;
  pl_context& operator=(const pl_context&) = delete;

  std::string plugin;  // origin of log lines: "task summarization"
  std::function<void(std::uint32_t level, std::string_view line)> log;
  std::function<void(std::string_view name, double sum, double weight)> metric;
  std::function<void(std::string_view name, const pl_tensor& sum, double weight)> metric_tensor;
  std::function<void(std::string_view what, std::uint64_t done, std::uint64_t total)> progress;
  std::function<bool()> cancelled;
  // Exchanges between ranks; see give_exchange(). What these throw becomes the slot's error.
  std::function<std::vector<std::string>(std::string_view name, std::string_view mine)> exchange;
  std::function<void(std::string_view key, std::string_view value)> store_set;
  std::function<std::optional<std::string>(std::string_view key, std::chrono::duration<double>)> store_get;
  // Opens a group of some of the run's ranks, by rank in the group; what it returns lives as long as the
  // group.
  std::function<pl_communicator(std::string_view name, const std::vector<std::int32_t>& members)> open_group;

  // The facts of the run; its strings are copied.
  void set_run_info(const pl_run_info& info);
  const pl_run_info& run_info() const { return info_; }

  // The thread that created this context: [main].
  std::thread::id main_thread() const { return main_thread_; }

 private:
  pl_run_info info_ = pipeline::sized<pl_run_info>();
  std::string run_dir_;
  std::string cache_dir_;
  std::thread::id main_thread_ = std::this_thread::get_id();
};

namespace pipeline::peers {
class Peers;
}

namespace pipeline::plugins {

// Lets a strategy or backend exchange bytes over `peers`, which must outlive the context, under names that
// begin with context.plugin. `cancelled`: when it returns true, exchanges fail with PL_ERROR_CANCELLED; may
// be empty.
void give_exchange(pl_context& context, peers::Peers& peers, const std::function<bool()>& cancelled = {});
// Lets a strategy or backend exchange bytes among some ranks: `members` by rank in their group, of which this
// process has `rank`. `group`: a name that no other group has. What is exchanged stays in the store: it is
// for opening a group, not for each step.
void give_exchange_among(pl_context& context, peers::Peers& peers, const std::string& group,
                         const std::vector<std::int32_t>& members, std::int32_t rank,
                         std::chrono::duration<double> timeout, const std::function<bool()>& cancelled = {});

// The one table of this process; static.
const pl_host& host_table();

// For places that cannot throw: logs the exception being handled as an error, or writes it to stderr if
// there is no log (`context` may be NULL). [any-thread]
void say_exception(const pl_context* context) noexcept;

}  // namespace pipeline::plugins
