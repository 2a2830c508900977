// The C table of a Backend class. Included by backend.hpp.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>

PIPELINE_SDK_BEGIN

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
      t.close = [](pl_comm* c) {
        if (c == nullptr) return;
        const pl_context* context = self(c).context().raw();
        guard_void(context, [&] { delete &self(c); });
      };
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
