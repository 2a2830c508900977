// How a model runs its layers, so that the core can recompute activations and a strategy can hold one unit's
// parameters at a time.
#pragma once

#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/torch/recompute.hpp>

#include <concepts>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

PIPELINE_SDK_BEGIN

// A model runs layer k of its stack as `x = units(k, *layer, x)` or, without modules, as units.run(k, fn,
// inputs, parameters). [main] in the forward pass; in the backward pass, on that pass's thread.
//
// A unit sums its own gradients of an input before others are added to them, with hooks, with checkpointing
// or with neither: otherwise a sum of three would have another order, and other bits.
//
// Every micro-batch goes through all units in the same order, on all ranks: see pl_unit_hooks. A
// micro-batch that does not use a unit calls skip() in its place.
//
// The backward pass of unit k lies between the backward of two identity functions: the one around its
// outputs enters, the one around its inputs leaves. All gradients of the unit arrive in between, since
// autograd runs first what was recorded last.
class Units {
 public:
  // Set both before the first pass. NULL: no hooks.
  void set_hooks(const pl_unit_hooks* hooks) { hooks_ = hooks; }
  void set_checkpointing(bool on) { checkpointing_ = on; }
  // Whether the model has run any layer through this object.
  bool used() const { return used_; }
  // The device on which the layers compute.
  void set_device(c10::Device device) { device_ = device; }

  Tensors run(uint32_t unit, const LayerFn& layer, const Tensors& inputs, const Tensors& parameters) {
    used_ = true;
    const LayerFn recomputed = [&](const Tensors& in) { return recompute(layer, in, parameters); };
    return run_once(unit, checkpointing_ ? recomputed : layer, inputs);
  }

  // For a unit whose activations are never computed again: an embedding, an output head.
  Tensors run_once(uint32_t unit, const LayerFn& layer, const Tensors& inputs) {
    const bool leaves = at::GradMode::is_enabled() && any_requires_grad(inputs);
    if (hooks_ == nullptr) return layer(leaves ? through<Sum>(unit, inputs, false) : inputs);
    const uint32_t pass = at::GradMode::is_enabled() ? PL_PASS_FORWARD : PL_PASS_FORWARD_ALONE;
    check(hooks_->enter(hooks_->user, unit, pass));
    Tensors outputs = layer(leaves ? through<Leave>(unit, inputs, false) : inputs);
    if (at::GradMode::is_enabled() && any_requires_grad(outputs))
      outputs = through<Enter>(unit, outputs, leaves);
    check(hooks_->leave(hooks_->user, unit, pass));
    return outputs;
  }

  // Enters and leaves a unit that this micro-batch does not use, forward and backward, and computes nothing.
  // `before`: what skip() returned for the previous unit, if that is skipped, too. `trainable`: whether any
  // of the unit's parameters is; where none is, and none before, the backward pass would not get here either.
  // Returns a tensor without elements. Pass it to joined(), or to what takes the place of the skipped output.
  //
  //   at::Tensor seen = has_picture ? tower(picture) : units.skip(1, units.skip(0));
  //   x = has_picture ? merge(x, seen) : units.joined(x, seen);
  at::Tensor skip(uint32_t unit, const at::Tensor& before = {}, bool trainable = true) {
    const at::Tensor input = before.defined() ? before : at::zeros({0}, device_);
    const at::Tensor leaf = at::zeros({0}, device_).requires_grad_(trainable && at::GradMode::is_enabled());
    return run_once(unit, [&](const Tensors& in) { return Tensors{in[0] + leaf}; }, {input})[0];
  }
  // Returns x; the backward pass continues from it into the skipped units.
  at::Tensor joined(const at::Tensor& x, const at::Tensor& skipped) { return Join::apply(x, skipped); }

  // A layer with parameters() and forward(inputs...), e.g. a torch::nn::Module.
  template <class Layer, std::convertible_to<at::Tensor>... Inputs>
  at::Tensor operator()(uint32_t unit, Layer& layer, const Inputs&... inputs) {
    const LayerFn fn = [&layer](const Tensors& x) {
      return call_layer(layer, x, std::index_sequence_for<Inputs...>());
    };
    return run(unit, fn, {inputs...}, layer.parameters())[0];
  }

  // Call after the backward pass. Leaves the units that did not leave by themselves because no gradient
  // passes through their inputs.
  void finish_backward() {
    close_if([](const Open&) { return true; });
  }
  // Call after a pass that failed.
  void abandon() { open_.clear(); }

 private:
  struct Open {
    uint32_t unit;
    bool leaves;  // by itself
  };

  template <class Layer, size_t... I>
  static Tensors call_layer(Layer& layer, const Tensors& x, std::index_sequence<I...>) {
    return {layer.forward(x[I]...)};
  }

  void enter_backward(uint32_t unit, bool leaves) {
    // A unit that cannot leave by itself is done by now: it recorded everything after this unit did.
    close_if([](const Open& other) { return !other.leaves; });
    check(hooks_->enter(hooks_->user, unit, PL_PASS_BACKWARD));
    open_.push_back({unit, leaves});
  }
  void leave_backward(uint32_t unit) {
    close_if([&](const Open& other) { return other.unit == unit; });
  }

  template <class Condition>
  void close_if(Condition&& done) {
    std::vector<Open> closing;
    for (const Open& unit : open_) {
      if (done(unit)) closing.push_back(unit);
    }
    std::erase_if(open_, done);
    for (const Open& unit : closing) check(hooks_->leave(hooks_->user, unit.unit, PL_PASS_BACKWARD));
  }

  // An identity whose backward notifies `units`. It returns detach(): returning the input itself would make
  // later in-place operations fail.
  template <class Derived>
  struct Identity : torch::autograd::Function<Derived> {
    using Context = torch::autograd::AutogradContext;
    static Tensors forward(Context* context, Units* units, int64_t unit, bool leaves,
                           at::TensorList tensors) {
      context->saved_data["units"] = reinterpret_cast<int64_t>(units);
      context->saved_data["unit"] = unit;
      context->saved_data["leaves"] = leaves;
      context->set_materialize_grads(false);
      Tensors same;
      for (const at::Tensor& t : tensors) same.push_back(t.detach());
      return same;
    }
    static Tensors backward(Context* context, Tensors gradients) {
      auto* units = reinterpret_cast<Units*>(context->saved_data["units"].toInt());
      Derived::tell(*units, static_cast<uint32_t>(context->saved_data["unit"].toInt()),
                    context->saved_data["leaves"].toBool());
      gradients.insert(gradients.begin(), 3, at::Tensor());  // the arguments that are not tensors
      return gradients;
    }
  };
  struct Enter : Identity<Enter> {
    static void tell(Units& units, uint32_t unit, bool leaves) { units.enter_backward(unit, leaves); }
  };
  struct Leave : Identity<Leave> {
    static void tell(Units& units, uint32_t unit, bool /*leaves*/) { units.leave_backward(unit); }
  };
  struct Sum : Identity<Sum> {
    static void tell(Units& /*units*/, uint32_t /*unit*/, bool /*leaves*/) {}
  };

  struct Join : torch::autograd::Function<Join> {
    static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x,
                              const at::Tensor& /*skipped*/) {
      return x.detach();
    }
    static Tensors backward(torch::autograd::AutogradContext* /*context*/, const Tensors& gradients) {
      return {gradients[0], at::zeros({0}, gradients[0].options())};
    }
  };

  // Passes the tensors that need a gradient through one Function.
  template <class Function>
  Tensors through(uint32_t unit, const Tensors& tensors, bool leaves) {
    Tensors recorded;
    for (const at::Tensor& t : tensors) {
      if (t.defined() && t.requires_grad()) recorded.push_back(t);
    }
    recorded = Function::apply(this, static_cast<int64_t>(unit), leaves, at::TensorList(recorded));
    Tensors result = tensors;
    size_t next = 0;
    for (at::Tensor& t : result) {
      if (t.defined() && t.requires_grad()) t = std::move(recorded[next++]);
    }
    return result;
  }

  const pl_unit_hooks* hooks_ = nullptr;
  c10::Device device_{c10::kCPU};
  bool checkpointing_ = false;
  bool used_ = false;
  std::vector<Open> open_;  // in the backward pass
};

PIPELINE_SDK_END
