// The C table of a Strategy class. Included by strategy.hpp.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>

PIPELINE_SDK_BEGIN

template <class T>
class StrategyTable {
 public:
  using Class = T;
  static constexpr uint32_t kKind = PL_PLUGIN_STRATEGY;

  static const void* api() {
    static constexpr bool kEnter = PIPELINE_OVERRIDES(T, enter_unit);
    static_assert(kEnter == PIPELINE_OVERRIDES(T, leave_unit),
                  "override enter_unit and leave_unit, or neither");
    static constexpr bool kGather = PIPELINE_OVERRIDES(T, gather);
    static_assert(kGather == PIPELINE_OVERRIDES(T, release), "override gather and release, or neither");
    static const pl_strategy_api table = [] {
      auto t = sized<pl_strategy_api>();
      t.create = create;
      t.destroy = destroy;
      t.info = [](pl_strategy* s, pl_strategy_info* out) {
        return guard([&] { fill(out, self(s).info()); });
      };
      t.storage = storage;
      if constexpr (kEnter) t.unit_hooks = unit_hooks;
      t.begin_step = [](pl_strategy* s, uint64_t n) { return guard([&] { self(s).begin_step(n); }); };
      t.gradient_ready = [](pl_strategy* s, const pl_gradient* g) {
        return guard([&] { self(s).gradient_ready(Gradient(g)); });
      };
      t.end_micro_batch = [](pl_strategy* s, const pl_tensor* loss) {
        return guard([&] { self(s).end_micro_batch(loss); });
      };
      t.step = [](pl_strategy* s, const pl_step_args* args, uint64_t* ticket) {
        return guard([&] { *ticket = self(s).step(receive_args(args)); });
      };
      t.collect = [](pl_strategy* s, uint64_t ticket, pl_step_report* out) {
        return guard([&] { fill(out, self(s).collect(ticket)); });
      };
      t.load_state = [](pl_strategy* s, const pl_state_reader* r) {
        return guard([&] { self(s).load_state(StateReader(r)); });
      };
      t.snapshot = [](pl_strategy* s, uint32_t mode, pl_snapshot** out) {
        return guard([&] {
          if (mode != PL_SNAPSHOT_COPY && mode != PL_SNAPSHOT_VIEW)
            fail("snapshot mode ", mode, " is not known");
          *out = reinterpret_cast<pl_snapshot*>(self(s).snapshot(mode).release());
        });
      };
      t.snapshot_pieces = snapshot_pieces;
      t.snapshot_free = [](pl_snapshot* s) { delete reinterpret_cast<Snapshot*>(s); };
      t.memory = memory;
      if constexpr (kGather) {
        t.gather = [](pl_strategy* s) { return guard([&] { self(s).gather(); }); };
        t.release = [](pl_strategy* s) { return guard([&] { self(s).release(); }); };
      }
      if constexpr (PIPELINE_OVERRIDES(T, swap_average))
        t.swap_average = [](pl_strategy* s) { return guard([&] { self(s).swap_average(); }); };
      return t;
    }();
    return &table;
  }

 private:
  static T& self(pl_strategy* s) { return *reinterpret_cast<T*>(s); }

  static pl_error* create(const pl_host*, const pl_context* context, const pl_config* config,
                          const pl_strategy_args* args, pl_strategy** out) {
    return guard([&] {
      *out = nullptr;
      *out = reinterpret_cast<pl_strategy*>(new T(typename T::Setup(context, config, args)));
    });
  }
  static void destroy(pl_strategy* s) {
    if (s == nullptr) return;
    const pl_context* context = self(s).context().raw();
    guard_void(context, [&] { delete &self(s); });
  }

  static pl_error* storage(pl_strategy* s, uint64_t index, pl_tensor* value, pl_tensor* grad) {
    return guard([&] {
      const uint64_t count = self(s).parameters().size();
      if (index >= count) fail("storage of parameter ", index, " of ", count);
      const auto views = self(s).storage(index);
      *value = views.value;
      *grad = views.grad;
    });
  }

  static pl_error* unit_hooks(pl_strategy* s, pl_unit_hooks* out) {
    return guard([&] {
      auto hooks = sized<pl_unit_hooks>();
      hooks.user = &self(s);
      hooks.enter = [](void* user, uint32_t unit, uint32_t pass) {
        return guard([&] { static_cast<T*>(user)->enter_unit(unit, pass); });
      };
      hooks.leave = [](void* user, uint32_t unit, uint32_t pass) {
        return guard([&] { static_cast<T*>(user)->leave_unit(unit, pass); });
      };
      fill(out, hooks);
    });
  }

  static pl_error* snapshot_pieces(pl_snapshot* snapshot, pl_piece_visitor visit, void* user) {
    return guard([&] {
      reinterpret_cast<const Snapshot*>(snapshot)->visit([&](const Piece& piece) {
        const pl_piece raw = piece.raw();
        check(visit(user, &raw));
      });
    });
  }

  static pl_error* memory(pl_strategy* s, pl_memory_visitor visit, void* user) {
    return guard([&] {
      self(s).memory([&](std::string_view what, uint64_t bytes) { check(visit(user, str(what), bytes)); });
    });
  }
};

PIPELINE_SDK_END
