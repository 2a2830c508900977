#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace pipeline::transformer {

// Names that Functions are written with.
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Whether an input of a Function needs one: frozen weights, and what depends on no trained parameter, do not.
template <class... T>
bool any_needs_gradient(const T&... inputs) {
  return (inputs.requires_grad() || ...);
}

// For save_for_backward(); an empty tensor stands for what is not wanted.
inline at::Tensor kept_if(bool wanted, const at::Tensor& t) { return wanted ? t : t.new_empty({0}); }

// What a Function keeps for its backward pass besides tensors; held by the graph as an IValue custom class
// would be, but without registering one.
template <class T>
struct Kept : torch::CustomClassHolder {
  explicit Kept(T what) : value(std::move(what)) {}
  T value;
};

template <class T>
void keep(torch::autograd::AutogradContext* ctx, T value) {
  ctx->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept<T>>(std::move(value)));
}

// What keep() kept, which lives as long as the context's saved data.
template <class T>
T& kept(torch::autograd::AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<Kept<T>>(ctx->saved_data["kept"].toCapsule())->value;
}

}  // namespace pipeline::transformer
