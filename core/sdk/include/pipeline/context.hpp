#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

PIPELINE_SDK_BEGIN

// The run, as one plugin object sees it. Copies are cheap and valid as long as that object. All methods are
// [any-thread], except metric.
class Context {
 public:
  explicit Context(const pl_context* context) : context_(context), run_(receive(host().run_info(context))) {
    require_known_flags("the run", run_.flags,
                        PL_RUN_REPRODUCIBLE | PL_RUN_ACTIVATION_CHECKPOINTING | PL_RUN_PIN_MEMORY);
  }

  const pl_run_info& run() const { return run_; }
  bool reproducible() const { return (run_.flags & PL_RUN_REPRODUCIBLE) != 0; }
  bool activation_checkpointing() const { return (run_.flags & PL_RUN_ACTIVATION_CHECKPOINTING) != 0; }
  bool exports_float32() const { return (run_.flags & PL_RUN_EXPORTS_FLOAT32) != 0; }
  bool pin_memory() const { return (run_.flags & PL_RUN_PIN_MEMORY) != 0; }

  // Logs one line: the parts, concatenated.
  template <class... Parts>
  void debug(const Parts&... parts) const {
    log(PL_LOG_DEBUG, concat(parts...));
  }
  template <class... Parts>
  void info(const Parts&... parts) const {
    log(PL_LOG_INFO, concat(parts...));
  }
  template <class... Parts>
  void warn(const Parts&... parts) const {
    log(PL_LOG_WARNING, concat(parts...));
  }
  void log(uint32_t level, std::string_view line) const { host().log(context_, level, str(line)); }

  // A figure for this step's line of metrics.jsonl. [main]
  void metric(std::string_view name, double sum, double weight) const {
    host().metric(context_, str(name), sum, weight);
  }
  // A figure from a float32 or float64 scalar on the device, which is read one step later. [main]
  void metric(std::string_view name, const pl_tensor& sum, double weight) const {
    host().metric_tensor(context_, str(name), &sum, weight);
  }

  // total = 0: unknown.
  void progress(std::string_view what, uint64_t done, uint64_t total) const {
    host().progress(context_, str(what), done, total);
  }

  bool cancelled() const { return host().cancelled(context_) != 0; }
  void throw_if_cancelled() const {
    if (cancelled()) throw Error::received(PL_ERROR_CANCELLED, "stopped on request");
  }

  // The only source of randomness: a pure function of (run.seed, name, a, b, c).
  uint64_t seed(std::string_view name, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) const {
    return host().seed(context_, str(name), a, b, c);
  }

  // For strategies and backends: returns every rank's bytes, indexed by rank. All ranks make the same
  // exchanges under one name, in the same order.
  std::vector<std::string> exchange(std::string_view name, std::string_view mine) const {
    std::vector<std::string> all;
    check(host().exchange(context_, str(name), mine.data(), mine.size(), append, &all));
    return all;
  }
  // A table that all ranks share. store_get returns nullopt if the key is still missing after
  // timeout_seconds.
  void store_set(std::string_view key, std::string_view value) const {
    check(host().store_set(context_, str(key), value.data(), value.size()));
  }
  std::optional<std::string> store_get(std::string_view key, double timeout_seconds) const {
    std::vector<std::string> value;
    pl_error* error = host().store_get(context_, str(key), timeout_seconds, append, &value);
    if (error != nullptr && host().error_code(error) == PL_ERROR_TIMEOUT) {
      host().error_free(error);
      return std::nullopt;
    }
    check(error);
    return std::move(value.front());
  }

  // For strategies in training: a group of some of the run's ranks, which the host closes after the strategy.
  // All ranks call it, each with the members of its own group, by rank there. [main] collective
  pl_communicator open_group(std::string_view name, const std::vector<int32_t>& members) const {
    auto group = sized<pl_communicator>();
    check(host().group_open(context_, str(name), members.data(), members.size(), &group));
    return group;
  }

  const pl_context* raw() const { return context_; }

 private:
  static pl_error* append(void* all, int32_t, const void* bytes, uint64_t size) {
    return guard([&] {
      static_cast<std::vector<std::string>*>(all)->emplace_back(static_cast<const char*>(bytes), size);
    });
  }

  const pl_context* context_;
  pl_run_info run_;
};

PIPELINE_SDK_END
