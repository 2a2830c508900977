// A strategy: where parameters, gradients and optimizer state are stored, on one device or many.
//
//   class Single : public pipeline::Strategy<SingleConfig> {
//    public:
//     explicit Single(Setup setup) : Strategy(std::move(setup)) {
//       ... parameters(), optimizers(), communicator() ...
//     }
//     pl_strategy_info info() override { ... }
//     ...
//   };
//   PIPELINE_STRATEGY(Single, "single", "1.0.0", "One process, one device")
#pragma once

#include <pipeline/communicator.hpp>
#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/plugin.hpp>
#include <pipeline/state.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

PIPELINE_SDK_BEGIN

// An update rule with all of its options, named as in pl_optimizer.
struct OptimizerRule {
  std::string name;
  uint32_t flags = 0;  // PL_OPTIMIZER_WHOLE_TENSORS
  Numbers options;
  // A plugin's rule; null: the strategy knows the rule by its name.
  const pl_optimizer_api* api = nullptr;
  pl_update_rule* rule = nullptr;

  static OptimizerRule from(const pl_optimizer& sent) {
    OptimizerRule rule{std::string(view(sent.name)), sent.flags, {}, sent.api, sent.rule};
    for (uint64_t i = 0; i < sent.option_count; ++i)
      rule.options.emplace(view(sent.options[i].name), sent.options[i].value);
    return rule;
  }
  // Throws Error unless the options are exactly these.
  void require_options(const std::vector<std::string_view>& names) const {
    for (const std::string_view key : names) {
      if (!options.contains(key)) fail("optimizer ", name, ": option ", key, " is missing");
    }
    for (const auto& [key, value] : options) {
      if (std::find(names.begin(), names.end(), key) == names.end())
        fail_with(PL_ERROR_UNSUPPORTED, "optimizer ", name, ": option ", key, " is not known");
    }
  }
  double option(std::string_view key) const { return options.find(key)->second; }
};

template <class ConfigT>
struct StrategySetup : Setup<ConfigT> {
  StrategySetup(const pl_context* raw_context, const pl_config* raw_config, const pl_strategy_args* sent)
      : Setup<ConfigT>(raw_context, raw_config) {
    const pl_strategy_args args = receive_args(sent);
    for (uint64_t i = 0; i < args.parameter_count; ++i)
      parameters.push_back(Parameter::from(receive_element(args.parameters, i)));
    for (uint64_t i = 0; i < args.optimizer_count; ++i)
      optimizers.push_back(OptimizerRule::from(receive_element(args.optimizers, i)));
    for (const Parameter& parameter : parameters) {
      if (parameter.trainable && parameter.optimizer >= optimizers.size())
        fail("parameter ", parameter.name, " is to be updated by optimizer ", parameter.optimizer, " of ",
             optimizers.size());
    }
    if (args.communicator != nullptr) communicator.emplace(args.communicator);
  }

  std::vector<Parameter> parameters;
  std::vector<OptimizerRule> optimizers;
  std::optional<Communicator> communicator;  // none with one process
};

// One training step: begin_step, then per micro-batch of this rank gradient_ready* and end_micro_batch,
// then step; its report is collected one step later. Methods are called on the main thread unless they say
// otherwise; gradient_ready from any thread, one call at a time. Throw Error to report a failure.
template <class ConfigT>
class Strategy : public Object<ConfigT> {
 public:
  using Interface = Strategy;
  using Config = ConfigT;
  using Setup = StrategySetup<ConfigT>;

  explicit Strategy(Setup setup)
      : Object<ConfigT>(setup),
        parameters_(std::move(setup.parameters)),
        optimizers_(std::move(setup.optimizers)),
        communicator_(std::move(setup.communicator)) {}

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<OptimizerRule>& optimizers() const { return optimizers_; }  // by Parameter::optimizer
  const Communicator* communicator() const { return communicator_ ? &*communicator_ : nullptr; }

  virtual pl_strategy_info info() = 0;

  // What the task is bound to. Memory and shapes belong to this object. grad.data == NULL: gradients are
  // handed over.
  struct Storage {
    pl_tensor value;
    pl_tensor grad;
  };
  virtual Storage storage(uint64_t index) = 0;

  // (optional, both or neither) Called as the task enters and leaves each unit, if info().flags has
  // PL_STRATEGY_NEEDS_UNIT_HOOKS. [collective]
  virtual void enter_unit(uint32_t /*unit*/, uint32_t /*pass*/) {}
  virtual void leave_unit(uint32_t /*unit*/, uint32_t /*pass*/) {}

  // (optional, both or neither) Between the two, all parameters are in place, at the addresses that
  // storage() then returns. Called on all ranks, never between begin_step and step.
  virtual void gather() {}
  virtual void release() {}

  // (optional) For a strategy that keeps the moving average of weights: it takes the values' place, in what
  // the task is bound to as well; the next call puts both back. Between the two are evaluations alone.
  // [collective]
  virtual void swap_average() {}

  // micro_batches: how many this rank will run, empty ones included.
  virtual void begin_step(uint64_t micro_batches) = 0;
  virtual void gradient_ready(Gradient gradient) = 0;
  // loss: the task's loss sum, valid during the call; NULL: this rank had no micro-batch, its gradients
  // count as zero.
  virtual void end_micro_batch(const pl_tensor* loss) = 0;
  // Reduces, clips, updates. Returns a ticket for collect().
  virtual uint64_t step(const pl_step_args& args) = 0;
  virtual pl_step_report collect(uint64_t ticket) = 0;

  virtual void load_state(const StateReader& reader) = 0;
  // mode: PL_SNAPSHOT_COPY or PL_SNAPSHOT_VIEW, and PL_SNAPSHOT_TRAINED where info() says that it is taken.
  virtual std::unique_ptr<Snapshot> snapshot(uint32_t mode) = 0;
  // Reports the bytes used on this rank's device and host, by purpose.
  virtual void memory(const MemoryVisitor& visit) = 0;

 private:
  std::vector<Parameter> parameters_;
  std::vector<OptimizerRule> optimizers_;
  std::optional<Communicator> communicator_;
};

// The C table of a Strategy class.
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
      t.destroy = destroy_object<T, pl_strategy>;
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
          if (const uint32_t kind = mode & ~PL_SNAPSHOT_TRAINED;
              kind != PL_SNAPSHOT_COPY && kind != PL_SNAPSHOT_VIEW)
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
    return create_object<T>(out, context, config, args);
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

#define PIPELINE_STRATEGY(Class, plugin_name, plugin_version, plugin_summary) \
  PIPELINE_ENTRY(::pipeline::StrategyTable<Class>, plugin_name, plugin_version, plugin_summary)
