// A backend: how bytes move between processes. One object is one group of ranks.
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/object.hpp>
#include <pipeline/plugin.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

PIPELINE_SDK_BEGIN

template <class ConfigT>
struct BackendSetup : Setup<ConfigT> {
  BackendSetup(const pl_context* raw_context, const pl_config* raw_config, const pl_backend_open_args* sent)
      : Setup<ConfigT>(raw_context, raw_config), args(receive_args(sent)) {}

  pl_backend_open_args args;  // strings valid in the constructor only
};

// A collective in progress.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  // Orders later work on `stream` after the result; with PL_STREAM_NONE, blocks until it is there.
  // [any-thread]
  virtual void wait(pl_stream stream) = 0;
  // Blocks until the work is done. timeout_seconds <= 0: the group's timeout. [any-thread]
  virtual void wait_host(double timeout_seconds) = 0;
  // False while wait() would block this thread. Keep true where a device does the work: the host runs ahead
  // of it. [any-thread]
  virtual bool is_done() { return true; }
};

// Elements per rank; nullopt: split evenly.
using Counts = std::optional<std::span<const uint64_t>>;

// The constructor opens the group and blocks until all ranks have connected, at most args.timeout_seconds.
// Collectives start and return at once; they are called from any thread, one call at a time. abort() may
// run concurrently with everything and makes pending and later calls fail with PL_ERROR_PEER within a
// second. The destructor closes the group; by then all work has been waited for. A class with
// `static constexpr bool kHasGroups = true` also opens groups of some of the run's ranks: it takes ranks and
// counts from args alone, and meets the others by the context's exchange and store.
template <class ConfigT>
class Backend : public Object<ConfigT> {
 public:
  using Interface = Backend;
  using Config = ConfigT;
  using Setup = BackendSetup<ConfigT>;
  using Started = std::unique_ptr<Work>;

  explicit Backend(Setup setup) : Object<ConfigT>(setup), world_size_(setup.args.world_size) {}
  int32_t world_size() const { return world_size_; }

  // "NCCL 2.27.3"; the interface or mechanism in use, as far as known.
  virtual const std::string& library() const = 0;
  virtual const std::string& transport() const = 0;

  virtual Started all_reduce(const pl_buffer& in_out, uint32_t reduce) = 0;
  virtual Started reduce_scatter(const pl_buffer& in, const pl_buffer& out_shard, Counts counts,
                                 uint32_t reduce) = 0;
  virtual Started all_gather(const pl_buffer& in_shard, const pl_buffer& out_full, Counts counts) = 0;
  virtual Started broadcast(const pl_buffer& in_out, int32_t root) = 0;
  virtual Started all_to_all(const pl_buffer& in, const pl_buffer& out, Counts send_counts,
                             Counts receive_counts) = 0;
  virtual Started barrier() = 0;
  virtual void abort(std::string_view reason) = 0;
  // (optional) For a backend that moves bytes on threads of its own: see pl_backend_api.observe.
  virtual void observe(pl_collective_ran /*ran*/, void* /*user*/) {}

 private:
  int32_t world_size_;
};

PIPELINE_SDK_END

#include <pipeline/backend_table.hpp>

#define PIPELINE_BACKEND(Class, plugin_name, plugin_version, plugin_summary) \
  PIPELINE_ENTRY(::pipeline::BackendTable<Class>, plugin_name, plugin_version, plugin_summary)
