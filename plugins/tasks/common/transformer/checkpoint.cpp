#include "checkpoint.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace pipeline::transformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using Body = std::function<at::Tensor(const at::Tensor&)>;

struct BodyHolder : torch::CustomClassHolder {
  Body body;
  bool input_needs_gradient = false;
};

class Checkpoint : public torch::autograd::Function<Checkpoint> {
 public:
  // The parameters are inputs, so that autograd knows that the result depends on them.
  static Variable forward(AutogradContext* ctx, const Variable& x, at::TensorList parameters, Body body) {
    auto holder = c10::make_intrusive<BodyHolder>();
    holder->body = std::move(body);
    holder->input_needs_gradient = x.requires_grad();
    variable_list saved{x};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    at::Tensor y = holder->body(x);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["body"] = c10::IValue::make_capsule(std::move(holder));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto holder = c10::static_intrusive_pointer_cast<BodyHolder>(ctx->saved_data["body"].toCapsule());
    const at::Tensor x = saved[0].detach().requires_grad_(holder->input_needs_gradient);
    variable_list inputs;
    std::vector<size_t> slots;  // where each gradient belongs
    for (size_t i = 0; i < saved.size(); ++i) {
      if (!(i == 0 ? holder->input_needs_gradient : saved[i].requires_grad())) continue;
      inputs.push_back(i == 0 ? x : saved[i]);
      slots.push_back(i);
    }
    variable_list result(saved.size() + 1);  // one more for the body itself
    {
      const at::AutoGradMode with_gradients(true);
      const at::Tensor y = holder->body(x);
      const variable_list gradients =
          torch::autograd::grad({y}, inputs, {grads[0]}, std::nullopt, false, true);
      for (size_t i = 0; i < slots.size(); ++i) result[slots[i]] = gradients[i];
    }
    return result;
  }
};

}  // namespace

at::Tensor checkpoint(Body body, const at::Tensor& x, const std::vector<at::Tensor>& parameters) {
  if (!at::GradMode::is_enabled()) return body(x);
  return Checkpoint::apply(x, at::TensorList(parameters), std::move(body));
}

}  // namespace pipeline::transformer
