// A model's parameters in the strategy's storage, and its gradients on their way to the strategy.
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/task_types.hpp>
#include <pipeline/torch/parameter_registry.hpp>
#include <pipeline/torch/runtime.hpp>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>

PIPELINE_SDK_BEGIN

class ParameterTable {
 public:
  ParameterTable() = default;
  ParameterTable(const ParameterTable&) = delete;
  ParameterTable& operator=(const ParameterTable&) = delete;
  ~ParameterTable() {
    for (Entry& entry : entries_) torch::autograd::impl::set_post_acc_grad_hooks(entry.tensor, nullptr);
  }

  // A tensor that the model holds under two names is one parameter, under the first name. Weight decay
  // applies to tensors of two or more dimensions.
  void add(const std::string& name, const at::Tensor& tensor) {
    Parameter info;
    info.name = name;
    info.shape = tensor.sizes().vec();
    info.trainable = tensor.requires_grad();
    info.decay = tensor.dim() >= 2;
    add(std::move(info), tensor);
  }
  void add(Parameter info, const at::Tensor& tensor) {
    if (index_.emplace(tensor.unsafeGetTensorImpl(), entries_.size()).second)
      entries_.push_back({std::move(info), tensor});
  }

  size_t size() const { return entries_.size(); }
  Parameter& info(uint64_t index) { return entries_.at(index).info; }
  at::Tensor& tensor(uint64_t index) { return entries_.at(index).tensor; }

  // From now on the model computes with the strategy's memory; the memory that it had allocated is freed.
  // coding: of bytes that are bound.
  void bind(uint64_t index, const pl_tensor& value, const pl_tensor& grad, const Coding* coding = nullptr) {
    Entry& entry = entries_.at(index);
    const at::NoGradGuard no_grad;
    const bool is_coded = coding != nullptr && same(value.dtype, kUInt8);
    if (value.data != nullptr)
      entry.tensor.set_data(is_coded ? coding->bound(entry.info, to_torch(value)) : to_torch(value));
    entry.bound = true;
    entry.tensor.requires_grad_(entry.info.trainable);
    if (!entry.info.trainable) return;
    entry.tensor.set_grad_dtype(std::nullopt);  // a gradient that was added up in float32 stays in float32
    entry.accumulates = grad.data != nullptr;
    entry.tensor.mutable_grad() = entry.accumulates ? to_torch(grad) : at::Tensor();
    torch::autograd::impl::set_post_acc_grad_hooks(entry.tensor, std::make_unique<Hook>(*this, index));
  }

  void check_bound() const {
    for (const Entry& entry : entries_) {
      if (!entry.bound) fail("parameter ", entry.info.name, " was not bound before the first batch");
    }
  }

  // While this exists, gradients go to `sink`. Without one, a backward pass is an error.
  class Delivery {
   public:
    Delivery(ParameterTable& table, const GradientSink& sink) : table_(table) { table_.sink_ = &sink; }
    Delivery(const Delivery&) = delete;
    Delivery& operator=(const Delivery&) = delete;
    ~Delivery() { table_.sink_ = nullptr; }

   private:
    ParameterTable& table_;
  };

  // For gradients computed without autograd: adds to the bound gradient, or hands the tensor over.
  void deliver(const at::Tensor& parameter, at::Tensor gradient) {
    const auto found = index_.find(parameter.unsafeGetTensorImpl());
    if (found == index_.end()) fail("a gradient for a tensor that is not a parameter of the model");
    Entry& entry = entries_[found->second];
    if (shape_of(gradient).size() != entry.info.shape.size() ||
        gradient.sizes() != at::IntArrayRef(entry.info.shape))
      fail("the gradient of ", entry.info.name, " has shape ", name_of(shape_of(gradient)), ", expected ",
           name_of(entry.info.shape));
    if (!entry.info.trainable) return;
    const at::NoGradGuard no_grad;
    if (entry.accumulates) {
      entry.tensor.mutable_grad().add_(gradient);
    } else {
      entry.tensor.mutable_grad() = std::move(gradient);
    }
    ready(found->second);
  }

  // Adds `values`, (K, ...), to the rows `rows`, (K) int64, of the gradient. Only if the sink takes rows.
  void deliver_rows(const at::Tensor& parameter, const at::Tensor& rows, const at::Tensor& values) {
    const auto found = index_.find(parameter.unsafeGetTensorImpl());
    if (found == index_.end()) fail("rows of a gradient for a tensor that is not a parameter of the model");
    if (!entries_[found->second].info.trainable) return;
    const std::lock_guard lock(mutex_);
    if (sink_ == nullptr)
      fail("a gradient of ", entries_[found->second].info.name, " was computed outside of training");
    const at::Tensor lent_rows = rows.contiguous(), lent_values = values.contiguous();
    sink_->add_rows(found->second, to_pl(lent_rows), to_pl(lent_values), current_stream(values.device()));
  }

 private:
  struct Entry {
    Parameter info;
    at::Tensor tensor;
    bool bound = false;
    bool accumulates = false;  // into the strategy's memory; otherwise gradients are handed over
  };

  // Called by autograd when a parameter's gradient is complete, on the thread of the backward pass.
  struct Hook : torch::autograd::PostAccumulateGradHook {
    Hook(ParameterTable& owner, uint64_t which) : table(owner), index(which) {}
    // Autograd also calls this if all gradients were undefined: then the gradient was handed over in parts.
    void operator()(const at::Tensor& parameter) override {
      if (parameter.grad().defined()) table.ready(index);
    }
    ParameterTable& table;
    uint64_t index;
  };

  void ready(uint64_t index) {
    const std::lock_guard lock(mutex_);  // autograd has a thread for each device
    Entry& entry = entries_[index];
    if (sink_ == nullptr) fail("a gradient of ", entry.info.name, " was computed outside of training");
    const pl_stream stream = current_stream(entry.tensor.device());
    if (entry.accumulates) {
      const pl_tensor view = to_pl(entry.tensor.grad());
      return sink_->ready(index, view, stream);
    }
    at::Tensor gradient = std::move(entry.tensor.mutable_grad());
    entry.tensor.mutable_grad() = at::Tensor();
    if (gradient.scalar_type() == at::kDouble) gradient = gradient.to(entry.tensor.scalar_type());
    if (!gradient.is_contiguous()) gradient = gradient.contiguous();
    auto owner = std::make_unique<at::Tensor>(std::move(gradient));
    const pl_tensor view = to_pl(*owner);
    at::Tensor* owned = owner.release();  // the strategy's from here on, even if it throws
    sink_->ready(index, view, stream, owned, [](void* memory) { delete static_cast<at::Tensor*>(memory); });
  }

  std::vector<Entry> entries_;
  std::unordered_map<const void*, uint64_t> index_;  // by TensorImpl
  const GradientSink* sink_ = nullptr;
  std::mutex mutex_;
};

PIPELINE_SDK_END
