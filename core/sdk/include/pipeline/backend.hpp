// A backend: how bytes move between processes. One object is one group of ranks.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
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

// The C table of a Backend class.
template <class T>
class BackendTable {
 public:
  using Class = T;
  static constexpr uint32_t kKind = PL_PLUGIN_BACKEND;

  static const void* api() {
    static const pl_backend_api table = [] {
      auto t = sized<pl_backend_api>();
      t.open = open;
      t.info = info;
      t.all_reduce = [](pl_comm* c, const pl_buffer* in_out, uint32_t reduce, pl_work** out) {
        return start(out, [&] { return self(c).all_reduce(receive(in_out), known(reduce)); });
      };
      t.reduce_scatter = [](pl_comm* c, const pl_buffer* in, const pl_buffer* shard, const uint64_t* n,
                            uint32_t reduce, pl_work** out) {
        return start(out, [&] {
          return self(c).reduce_scatter(receive(in), receive(shard), counts(c, n), known(reduce));
        });
      };
      t.all_gather = [](pl_comm* c, const pl_buffer* shard, const pl_buffer* full, const uint64_t* n,
                        pl_work** out) {
        return start(out, [&] { return self(c).all_gather(receive(shard), receive(full), counts(c, n)); });
      };
      t.broadcast = [](pl_comm* c, const pl_buffer* in_out, int32_t root, pl_work** out) {
        return start(out, [&] { return self(c).broadcast(receive(in_out), root); });
      };
      t.all_to_all = [](pl_comm* c, const pl_buffer* in, const pl_buffer* to, const uint64_t* sent,
                        const uint64_t* received, pl_work** out) {
        return start(out, [&] {
          return self(c).all_to_all(receive(in), receive(to), counts(c, sent), counts(c, received));
        });
      };
      t.barrier = [](pl_comm* c, pl_work** out) { return start(out, [&] { return self(c).barrier(); }); };
      t.wait = [](pl_comm*, pl_work* work, pl_stream stream) {
        return guard([&] {
          const std::unique_ptr<Work> owned(reinterpret_cast<Work*>(work));
          owned->wait(stream);
        });
      };
      t.wait_host = [](pl_comm*, pl_work* work, double timeout_seconds) {
        return guard([&] {
          const std::unique_ptr<Work> owned(reinterpret_cast<Work*>(work));
          owned->wait_host(timeout_seconds);
        });
      };
      t.abort = [](pl_comm* c, pl_str reason) {
        guard_void(self(c).context().raw(), [&] { self(c).abort(view(reason)); });
      };
      t.close = destroy_object<T, pl_comm>;
      t.is_done = [](pl_comm* c, pl_work* work) {
        uint32_t done = 1;
        guard_void(self(c).context().raw(), [&] { done = reinterpret_cast<Work*>(work)->is_done() ? 1 : 0; });
        return done;
      };
      if constexpr (PIPELINE_OVERRIDES(T, observe))
        t.observe = [](pl_comm* c, pl_collective_ran ran, void* user) {
          guard_void(self(c).context().raw(), [&] { self(c).observe(ran, user); });
        };
      return t;
    }();
    return &table;
  }

 private:
  static T& self(pl_comm* c) { return *reinterpret_cast<T*>(c); }

  static pl_error* open(const pl_host*, const pl_context* context, const pl_config* config,
                        const pl_backend_open_args* args, pl_comm** out) {
    return guard([&] {
      *out = nullptr;
      if constexpr (!requires { T::kHasGroups; })
        if (PL_HAS(pl_backend_open_args, args, members) && args->members != nullptr)
          fail_with(PL_ERROR_UNSUPPORTED, "opens no groups of some ranks: use another backend, or leave ",
                    "groups (strategy.shard_group) out");
      *out = reinterpret_cast<pl_comm*>(new T(typename T::Setup(context, config, args)));
    });
  }

  static pl_error* info(pl_comm* c, pl_backend_info* out) {
    return guard([&] {
      auto raw = sized<pl_backend_info>();
      raw.library = str(self(c).library());
      raw.transport = str(self(c).transport());
      fill(out, raw);
    });
  }

  template <class Start>
  static pl_error* start(pl_work** out, Start&& call) {
    return guard([&] {
      *out = nullptr;
      *out = reinterpret_cast<pl_work*>(call().release());
    });
  }

  static uint32_t known(uint32_t reduce) {
    if (PL_CODE(reduce) < PL_REDUCE_SUM || PL_CODE(reduce) > PL_REDUCE_MAX)
      fail_with(PL_ERROR_UNSUPPORTED, "reduction ", reduce, " is not known");
    return PL_CODE(reduce);
  }

  static Counts counts(pl_comm* c, const uint64_t* values) {
    if (values == nullptr) return std::nullopt;
    return std::span(values, static_cast<size_t>(self(c).world_size()));
  }
};

PIPELINE_SDK_END

#define PIPELINE_BACKEND(Class, plugin_name, plugin_version, plugin_summary) \
  PIPELINE_ENTRY(::pipeline::BackendTable<Class>, plugin_name, plugin_version, plugin_summary)
