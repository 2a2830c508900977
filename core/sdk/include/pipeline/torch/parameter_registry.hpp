// A model's parameters, each declared where it is created, with everything that others must know about it.
#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/torch/random.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

PIPELINE_SDK_BEGIN

// Writes a parameter's value before training into `out`: float32, contiguous, in host memory. `seed` is
// this parameter's own: a function of the run's seed and the parameter's index.
using InitialValue = std::function<void(at::Tensor& out, uint64_t seed)>;

inline InitialValue constant(double value) {
  return [value](at::Tensor& out, uint64_t /*seed*/) { out.fill_(value); };
}
// Normal, with mean 0 and standard deviation `deviation`.
inline InitialValue normal(double deviation) {
  return [deviation](at::Tensor& out, uint64_t seed) { out.normal_(0, deviation, make_generator(seed)); };
}

// A model that returns one from `parameters()` need not be a torch module:
//
//   class Line {
//    public:
//     pipeline::ParameterRegistry& parameters() { return parameters_; }
//    private:
//     pipeline::ParameterRegistry parameters_;
//     at::Tensor slope_ = parameters_.add({.name = "slope", .shape = {8, 8}, .unit = 1}, normal(0.02));
//   };
class ParameterRegistry {
 public:
  struct Declared : Parameter {
    at::Tensor tensor;
    InitialValue initial;
  };

  ParameterRegistry() = default;
  ParameterRegistry(const ParameterRegistry&) = delete;  // two models would share their tensors
  ParameterRegistry& operator=(const ParameterRegistry&) = delete;

  // Changes each parameter that is added from now on before it is: freezes it, sets its learning rate.
  using Rule = std::function<void(Parameter&)>;
  void set_rule(Rule rule) { rule_ = std::move(rule); }

  // Returns the tensor that the model computes with. Its memory is not touched before the first write, and
  // the strategy's memory replaces it later: a big model is never held twice.
  at::Tensor add(Parameter info, InitialValue initial) {
    if (rule_) rule_(info);
    at::Tensor tensor = at::empty(info.shape, at::kFloat).requires_grad_(info.trainable);
    if (by_unit_.size() <= info.unit) by_unit_.resize(info.unit + 1);
    by_unit_[info.unit].push_back(tensor);
    all_.push_back({std::move(info), tensor, std::move(initial)});
    return tensor;
  }

  size_t size() const { return all_.size(); }
  const Declared& operator[](size_t index) const { return all_.at(index); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  // The tensors of one unit, as Units::run() expects them.
  const std::vector<at::Tensor>& of_unit(uint32_t unit) const { return by_unit_.at(unit); }

  // Replaces the initial value of parameter `index`, e.g. with one from a folder.
  void start_from(size_t index, InitialValue initial) { all_.at(index).initial = std::move(initial); }

  // Writes the initial value of parameter `index`, a function of (seed, index) alone.
  void initialize(size_t index, uint64_t seed, at::Tensor& out) const {
    const Declared& parameter = all_.at(index);
    if (out.sizes() != at::IntArrayRef(parameter.shape) || out.scalar_type() != at::kFloat || !out.is_cpu() ||
        !out.is_contiguous())
      fail("the initial value of ", parameter.name, " is to go into a tensor of ",
           at::toString(out.scalar_type()), " and shape ", name_of(shape_of(out)),
           ", expected contiguous float32 in host memory and ", name_of(parameter.shape));
    parameter.initial(out, mix(seed, index));
  }

 private:
  static uint64_t mix(uint64_t seed, uint64_t index) {  // splitmix64
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  Rule rule_;
  std::vector<Declared> all_;
  std::vector<std::vector<at::Tensor>> by_unit_;
};

PIPELINE_SDK_END
