// Update rules that plugins bring (pl_optimizer_api).
#include "plugins/strategies/common/rules/update_rule.hpp"

#include <pipeline/host.hpp>
#include <pipeline/receive.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/ops/where.h>

namespace pipeline::strategies {
namespace {

using RuleSlot = pl_error* (*)(pl_update_rule*, const pl_update_args*);
using Tensors = std::vector<at::Tensor>;

// The gradients as the plugin gets them: its own, to be overwritten.
Tensors unscaled(const Update& update) {
  Tensors all;
  for (const at::Tensor& gradient : update.gradients)
    all.push_back(update.scale.divisor ? gradient / *update.scale.divisor : gradient.clone());
  return all;
}

class PluginCalls {
 public:
  explicit PluginCalls(const OptimizerRule& rule) : api_(receive(rule.api)), rule_(rule.rule) {
    rule.require_options({"weight_decay"});
    weight_decay_ = rule.option("weight_decay");
    auto info = sized<pl_optimizer_info>();
    check(api_.info(rule_, &info));
    for (uint64_t i = 0; i < info.state_count; ++i) kinds_.push_back({std::string(view(info.state[i]))});
  }

  const std::vector<StateKind>& kinds() const { return kinds_; }
  void update(const Update& update, const Tensors& gradients) const { call(api_.update, update, gradients); }
  void directions(const Update& update, const Tensors& gradients) const {
    call(api_.directions, update, gradients);
  }
  void transform(const at::Tensor& matrix) const {
    const pl_tensor view = to_pl(matrix);
    check(api_.transform(rule_, &view));
  }

 private:
  // Where only the device knows that the step is to be skipped, what the plugin has changed is put back: it
  // need not know of that.
  void call(RuleSlot slot, const Update& update, const Tensors& gradients) const {
    Tensors changed = update.weights, before;
    for (const std::vector<Kept>& kind : update.state)
      for (const Kept& kept : kind) changed.push_back(kept.values);
    if (update.scale.found_inf)
      for (const at::Tensor& values : changed) before.push_back(values.clone());
    const auto views = [](const Tensors& tensors) {
      std::vector<pl_tensor> all;
      for (const at::Tensor& tensor : tensors) all.push_back(to_pl(tensor));
      return all;
    };
    const std::vector<pl_tensor> values = views(changed), given = views(gradients);
    const pl_tensor updates = to_pl(update.step_count);
    auto args = sized<pl_update_args>();
    args.run_count = update.weights.size();
    args.weights = values.data();
    args.gradients = given.data();
    args.state = values.data() + update.weights.size();
    args.updates = &updates;
    args.learning_rate = update.learning_rate;
    args.weight_decay = weight_decay_;
    check(slot(rule_, &args));
    for (size_t i = 0; i < before.size(); ++i)
      changed[i].copy_(at::where(update.scale.found_inf->gt(0), before[i], changed[i]));
  }

  pl_optimizer_api api_;
  pl_update_rule* rule_;
  double weight_decay_;
  std::vector<StateKind> kinds_;
};

class PluginRule : public UpdateRule {
 public:
  explicit PluginRule(const OptimizerRule& rule) : plugin_(rule) {}
  std::vector<StateKind> kinds() const override { return plugin_.kinds(); }
  void apply(const Update& update) const override { plugin_.update(update, unscaled(update)); }

 private:
  PluginCalls plugin_;
};

class PluginTensorRule : public TensorRule {
 public:
  explicit PluginTensorRule(const OptimizerRule& rule) : plugin_(rule) {}
  std::vector<StateKind> kinds() const override { return plugin_.kinds(); }

  Tensors directions(const Update& update) const override {
    Tensors gradients = unscaled(update);
    plugin_.directions(update, gradients);
    return gradients;
  }
  at::Tensor transformed(const at::Tensor& directions) const override {
    at::Tensor matrix = directions.clone();
    plugin_.transform(matrix);
    return matrix;
  }
  void move(const Update& update, const Tensors& transformed) const override {
    plugin_.update(update, transformed);
  }

 private:
  PluginCalls plugin_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_plugin_rule(const OptimizerRule& options) {
  if ((options.flags & PL_OPTIMIZER_WHOLE_TENSORS) != 0) return std::make_unique<PluginTensorRule>(options);
  return std::make_unique<PluginRule>(options);
}

}  // namespace pipeline::strategies
