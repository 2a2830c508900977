// Update rules that plugins bring (pl_optimizer_api).
#include "plugins/strategies/common/rules/update_rule.hpp"

#include <pipeline/host.hpp>
#include <pipeline/receive.hpp>
#include <pipeline/torch/tensor.hpp>

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/where.h>

namespace pipeline::strategies {
namespace {

using RuleSlot = pl_error* (*)(pl_update_rule*, const pl_update_args*);
using Tensors = std::vector<at::Tensor>;

// A gradient as the plugin gets it: its own, to be overwritten, and zero in a step that is to be skipped.
at::Tensor unscaled(const at::Tensor& gradient, const GradientScale& scale) {
  const at::Tensor own = scale.divisor ? gradient / *scale.divisor : gradient.clone();
  return scale.found_inf ? at::where(scale.found_inf->gt(0), 0.0f, own) : own;
}

// LibTorch computes most of a tensor with vectors and what is left over, also of each thread's part, with
// scalars, which may have other bits. So on the CPU a plugin gets pieces of which nothing is left over.
constexpr int64_t kVectors = 64;         // a multiple of what any processor takes at once
constexpr int64_t kOfAThread = 1 << 15;  // at::internal::GRAIN_SIZE: a part is no smaller

// The length of the next piece of `left` elements.
int64_t next_piece(int64_t left, bool on_cpu) {
  if (!on_cpu) return left;
  const int64_t for_all = kOfAThread * at::get_num_threads();
  if (left >= for_all) return for_all;
  return std::min(left, kOfAThread);
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
  void update(const Update& update, size_t run, const at::Tensor& gradient) const {
    call(api_.update, update, run, gradient);
  }
  void directions(const Update& update, size_t run, const at::Tensor& gradient) const {
    call(api_.directions, update, run, gradient);
  }
  void transform(const at::Tensor& matrix) const {
    const pl_tensor view = to_pl(matrix);
    check(api_.transform(rule_, &view));
  }

 private:
  void call(RuleSlot slot, const Update& update, size_t run, const at::Tensor& gradient) const {
    Tensors run_of{gradient, update.weights[run]};
    for (const std::vector<Kept>& kind : update.state) run_of.push_back(kind[run].values);
    int64_t length = 0;
    for (int64_t begin = 0; begin < gradient.numel(); begin += length) {
      length = next_piece(gradient.numel() - begin, gradient.is_cpu());
      Tensors piece;
      for (const at::Tensor& values : run_of) piece.push_back(values.narrow(0, begin, length));
      if (!gradient.is_cpu() || length % kVectors == 0) {
        call(slot, update, piece);
        continue;
      }
      Tensors filled;
      for (const at::Tensor& values : piece)
        filled.push_back(at::constant_pad_nd(values, {0, kVectors - length % kVectors}));
      call(slot, update, filled);
      for (size_t i = 0; i < piece.size(); ++i) piece[i].copy_(filled[i].narrow(0, 0, length));
    }
  }

  // `values`: gradient, weights, state. Where only the device knows that the step is to be skipped, what the
  // plugin has changed is put back: it need not know of that.
  void call(RuleSlot slot, const Update& update, const Tensors& values) const {
    const std::optional<at::Tensor>& found_inf = update.scale.found_inf;
    Tensors before;
    for (size_t i = 1; found_inf && i < values.size(); ++i) before.push_back(values[i].clone());
    std::vector<pl_tensor> views;
    for (const at::Tensor& tensor : values) views.push_back(to_pl(tensor));
    const pl_tensor updates = to_pl(update.step_count);
    auto args = sized<pl_update_args>();
    args.run_count = 1;
    args.gradients = views.data();
    args.weights = views.data() + 1;
    args.state = views.data() + 2;
    args.updates = &updates;
    args.learning_rate = update.learning_rate;
    args.weight_decay = weight_decay_;
    check(slot(rule_, &args));
    for (size_t i = 0; i < before.size(); ++i) {
      at::Tensor changed = values[i + 1];
      changed.copy_(at::where(found_inf->gt(0), before[i], changed));
    }
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
  void apply(const Update& update) const override {
    for (size_t i = 0; i < update.weights.size(); ++i)
      plugin_.update(update, i, unscaled(update.gradients[i], update.scale));
  }

 private:
  PluginCalls plugin_;
};

class PluginTensorRule : public TensorRule {
 public:
  explicit PluginTensorRule(const OptimizerRule& rule) : plugin_(rule) {}
  std::vector<StateKind> kinds() const override { return plugin_.kinds(); }

  Tensors directions(const Update& update) const override {
    Tensors all;
    for (size_t i = 0; i < update.weights.size(); ++i) {
      all.push_back(unscaled(update.gradients[i], update.scale));
      plugin_.directions(update, i, all.back());
    }
    return all;
  }
  at::Tensor transformed(const at::Tensor& directions) const override {
    at::Tensor matrix = directions.clone();
    plugin_.transform(matrix);
    return matrix;
  }
  void move(const Update& update, const Tensors& transformed) const override {
    for (size_t i = 0; i < update.weights.size(); ++i) plugin_.update(update, i, transformed[i]);
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
