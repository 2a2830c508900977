#include "plugins/tasks/protein/model/parameters.hpp"

#include <ATen/ATen.h>

#include "transformer/initial_values.hpp"

namespace pipeline::protein {

at::Tensor Parameters::add(ParameterInfo info) {
  at::Tensor tensor = at::empty(info.shape, at::kFloat).requires_grad_();
  named_.emplace_back(info.name, tensor);
  infos_.push_back(std::move(info));
  return tensor;
}

transformer::Linear Parameters::linear(const std::string& name, int64_t in, int64_t out, uint32_t unit, double deviation) {
  return {add({name + ".weight", {in, out}, unit, true, {Initial::Kind::kNormal, deviation}}), add({name + ".bias", {out}, unit, false, {}})};
}

transformer::Norm Parameters::norm(const std::string& name, int64_t width, uint32_t unit, double epsilon) {
  return {add({name + ".weight", {width}, unit, false, {Initial::Kind::kOnes}}), add({name + ".bias", {width}, unit, false, {}}), epsilon};
}

void Parameters::write_initial(uint64_t seed, size_t index, at::Tensor& out) const {
  const ParameterInfo& parameter = info(index);
  TORCH_CHECK(out.sizes() == at::IntArrayRef(parameter.shape), "initial value of ", parameter.name, ": tensor of shape ", out.sizes(),
              ", must be ", at::IntArrayRef(parameter.shape));
  switch (parameter.initial.kind) {
    case Initial::Kind::kZeros: out.zero_(); break;
    case Initial::Kind::kOnes: out.fill_(1); break;
    case Initial::Kind::kNormal:
      transformer::fill_normal(out, parameter.initial.deviation, seed, index);
      break;
  }
}

}  // namespace pipeline::protein
