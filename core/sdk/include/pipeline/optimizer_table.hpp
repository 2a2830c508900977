// The C table of an Optimizer class. Included by optimizer.hpp.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>

PIPELINE_SDK_BEGIN

template <class T>
class OptimizerTable {
 public:
  using Class = T;
  static constexpr uint32_t kKind = PL_PLUGIN_OPTIMIZER;

  static const void* api() {
    static constexpr bool kMatrices = PIPELINE_OVERRIDES(T, transform);
    static_assert(kMatrices == PIPELINE_OVERRIDES(T, directions),
                  "override directions and transform, or neither");
    static const pl_optimizer_api table = [] {
      auto t = sized<pl_optimizer_api>();
      t.create = create;
      t.destroy = [](pl_update_rule* rule) { delete reinterpret_cast<Rule*>(rule); };
      t.info = info;
      t.update = [](pl_update_rule* rule, const pl_update_args* args) {
        return guard([&] { self(rule).update(Update(args)); });
      };
      if constexpr (kMatrices) {
        t.directions = [](pl_update_rule* rule, const pl_update_args* args) {
          return guard([&] { self(rule).directions(Update(args)); });
        };
        t.transform = [](pl_update_rule* rule, const pl_tensor* matrix) {
          return guard([&] { self(rule).transform(*matrix); });
        };
      }
      return t;
    }();
    return &table;
  }

  // For a strategy that has the rule itself.
  static pl_update_rule* make(typename T::Setup setup) {
    return reinterpret_cast<pl_update_rule*>(new Rule(std::move(setup)));
  }

 private:
  // The object, and the names of its state as info() hands them out.
  struct Rule {
    explicit Rule(typename T::Setup setup) : object(std::move(setup)), names(object.state()) {
      for (const std::string& name : names) state.push_back(str(name));
    }
    T object;
    std::vector<std::string> names;
    std::vector<pl_str> state;
  };

  static T& self(pl_update_rule* rule) { return reinterpret_cast<Rule*>(rule)->object; }

  static pl_error* create(const pl_host*, const pl_context* context, const pl_config* config,
                          pl_update_rule** out) {
    return guard([&] {
      *out = nullptr;
      *out = make(typename T::Setup(context, config));
    });
  }

  static pl_error* info(pl_update_rule* rule, pl_optimizer_info* out) {
    return guard([&] {
      const std::vector<pl_str>& state = reinterpret_cast<const Rule*>(rule)->state;
      auto raw = sized<pl_optimizer_info>();
      if (T::kTakesScale) raw.flags |= PL_OPTIMIZER_TAKES_SCALE;
      raw.state = state.data();
      raw.state_count = state.size();
      fill(out, raw);
    });
  }
};

PIPELINE_SDK_END
