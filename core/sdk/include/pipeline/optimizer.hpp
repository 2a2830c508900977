// An update rule: how weights follow from gradients, under any strategy.
//
//   class SignSgd : public pipeline::Optimizer<SignSgdConfig> {
//    public:
//     using Optimizer::Optimizer;
//     void update(const pipeline::Update& u) override {
//       for (size_t run = 0; run < u.runs(); ++run) ... u.weights(run), u.gradient(run) ...
//     }
//   };
//   PIPELINE_OPTIMIZER(SignSgd, "sign_sgd", "1.0.0", "The gradient's sign")
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/plugin.hpp>
#include <pipeline/tensor.hpp>

#include <string>
#include <vector>

PIPELINE_SDK_BEGIN

// What a call updates: runs of weights, each a parameter or a part of one, in float32, one-dimensional and
// contiguous, on the run's device. No bit may depend on where a run begins or ends.
class Update {
 public:
  explicit Update(const pl_update_args* sent) : args_(receive_args(sent)) {}

  size_t runs() const { return static_cast<size_t>(args_.run_count); }
  const pl_tensor& weights(size_t run) const { return args_.weights[run]; }
  const pl_tensor& gradient(size_t run) const { return args_.gradients[run]; }  // may be overwritten
  // kind: index in Optimizer::state().
  const pl_tensor& state(size_t kind, size_t run) const { return args_.state[kind * runs() + run]; }
  // The weights and the gradients of all runs.
  std::span<const pl_tensor> weights() const { return {args_.weights, runs()}; }
  std::span<const pl_tensor> gradients() const { return {args_.gradients, runs()}; }
  std::span<const pl_tensor> state(size_t kind) const { return {args_.state + kind * runs(), runs()}; }
  // Updates made, with this one: a float32 scalar on the device.
  const pl_tensor& updates() const { return *args_.updates; }
  double learning_rate() const { return args_.learning_rate; }
  double weight_decay() const { return args_.weight_decay; }  // 0 for parameters that do not decay
  // For a rule that takes the scale, float32 scalars on the device; null: nothing to do.
  const pl_tensor* divisor() const { return args_.divisor; }      // gradients are divided by it first
  const pl_tensor* found_inf() const { return args_.found_inf; }  // where it is not 0, nothing may change

 private:
  pl_update_args args_;
};

// The elements of a run, for a rule that computes in host memory.
inline std::span<float> floats(const pl_tensor& run) { return elements<float>(run, kFloat32); }

template <class ConfigT>
class Optimizer : public Object<ConfigT> {
 public:
  using Interface = Optimizer;
  using Config = ConfigT;
  using Setup = pipeline::Setup<ConfigT>;
  using Object<ConfigT>::Object;

  // True: update() and directions() heed divisor and found_inf. For other rules that is done for them, with
  // copies of gradients, weights and state.
  static constexpr bool kTakesScale = false;

  // Names of what is kept of each weight, zero at first; checkpoints have them.
  virtual std::vector<std::string> state() const { return {}; }
  // Changes weights and state in place, element by element.
  virtual void update(const Update& update) = 0;

  // (optional, both or neither) A rule for the matrices of hidden layers, which sees each one whole.
  // directions() replaces gradients, element by element, by what transform() is to see; transform() replaces
  // a matrix of them, (rows, columns), in place; update() gets that as gradients.
  virtual void directions(const Update& /*update*/) {}
  virtual void transform(const pl_tensor& /*matrix*/) {}
};

// The C table of an Optimizer class.
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

#define PIPELINE_OPTIMIZER(Class, plugin_name, plugin_version, plugin_summary) \
  PIPELINE_ENTRY(::pipeline::OptimizerTable<Class>, plugin_name, plugin_version, plugin_summary)
