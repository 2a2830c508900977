#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace pipeline::transformer {

// What Functions are written with.
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

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

// As long as the context's saved data.
template <class T>
T& kept(torch::autograd::AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<Kept<T>>(ctx->saved_data["kept"].toCapsule())->value;
}

}  // namespace pipeline::transformer
