// A model's parameters, each declared where it is created, with everything that others must know about it.
#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/torch/memory.hpp>
#include <pipeline/torch/random.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

// How parameters keep their values in PL_FORM_INT8 and PL_FORM_NF4.
class Coding {
 public:
  virtual ~Coding() = default;
  virtual uint64_t bytes(const Parameter& parameter, uint32_t form) const = 0;
  // values: float32, contiguous, in host memory, of the parameter's shape.
  virtual void encode(const Parameter& parameter, uint32_t form, const at::Tensor& values,
                      std::byte* out) const = 0;
  // What the model computes with, a view of the bytes: (bytes) uint8.
  virtual at::Tensor bound(const Parameter& parameter, const at::Tensor& bytes) const = 0;
  // The values of such a view, in float32.
  virtual at::Tensor decode(const Parameter& parameter, const at::Tensor& bound) const = 0;
};
// Writes the first value of a parameter in a form, as encode() does; false: it is not at hand in this one.
using InitialCode = std::function<bool(uint32_t form, std::byte* out)>;

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
    std::shared_ptr<const Coding> coding = nullptr;  // none: it has no form of 8 or 4 bits
    InitialCode initial_code = nullptr;

    // What the model computes with, as numbers: the tensor, or of one in 8 or 4 bits its values.
    at::Tensor value() const {
      return coding && !tensor.is_floating_point() ? coding->decode(*this, tensor) : tensor.detach();
    }
  };

  ParameterRegistry() = default;
  ParameterRegistry(const ParameterRegistry&) = delete;  // two models would share their tensors
  ParameterRegistry& operator=(const ParameterRegistry&) = delete;

  // Changes each parameter that is added from now on before it is: freezes it, sets its learning rate.
  using Rule = std::function<void(Parameter&)>;
  void set_rule(Rule rule) { rule_ = std::move(rule); }

  // Returns the tensor that the model computes with. Its memory is not touched before the first write, and
  // the strategy's memory replaces it later: a big model is never held twice.
  at::Tensor add(Parameter info, InitialValue initial, std::shared_ptr<const Coding> coding = nullptr) {
    if (rule_) rule_(info);
    at::Tensor tensor = mapped_zeros(info.shape, at::kFloat).requires_grad_(info.trainable);
    if (by_unit_.size() <= info.unit) by_unit_.resize(info.unit + 1);
    by_unit_[info.unit].push_back(tensor);
    all_.push_back({std::move(info), tensor, std::move(initial), std::move(coding)});
    return tensor;
  }

  // An export should write them in float32, whatever type they came in.
  void set_exports_float32(bool value) { exports_float32_ = value; }
  bool exports_float32() const { return exports_float32_; }

  size_t size() const { return all_.size(); }
  const Declared& operator[](size_t index) const { return all_.at(index); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  // The tensors of one unit, as Units::run() expects them.
  const std::vector<at::Tensor>& of_unit(uint32_t unit) const { return by_unit_.at(unit); }

  // Replaces the initial value of parameter `index`, e.g. with one from a folder.
  void start_from(size_t index, InitialValue initial, InitialCode code = nullptr) {
    all_.at(index).initial = std::move(initial);
    all_.at(index).initial_code = std::move(code);
  }

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

  // The initial value in a form that the parameter's coding has.
  void initialize_coded(size_t index, uint64_t seed, uint32_t form, std::byte* out) const {
    const Declared& parameter = all_.at(index);
    if (parameter.initial_code && parameter.initial_code(form, out)) return;
    at::Tensor value = at::empty(parameter.shape, at::kFloat);
    initialize(index, seed, value);
    parameter.coding->encode(parameter, form, value, out);
  }

 private:
  static uint64_t mix(uint64_t seed, uint64_t index) {  // splitmix64
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  Rule rule_;
  bool exports_float32_ = false;
  std::vector<Declared> all_;
  std::vector<std::vector<at::Tensor>> by_unit_;
};

PIPELINE_SDK_END
