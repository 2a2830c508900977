#include "parameters.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "transformer/initial_values.hpp"

namespace pipeline::summarization {

std::vector<ParameterInfo> parameter_list(const Gpt2Config& config) {
  std::vector<ParameterInfo> list;
  const int64_t width = config.n_embd;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, int64_t unit) {
    const bool matrix = shape.size() >= 2;
    list.push_back({"transformer." + name, std::move(shape), matrix, unit});
  };
  const auto norm = [&](const std::string& name, int64_t unit) {
    add(name + ".weight", {width}, unit);
    add(name + ".bias", {width}, unit);
  };
  const auto linear = [&](const std::string& name, int64_t in, int64_t out, int64_t unit) {
    add(name + ".weight", {in, out}, unit);
    add(name + ".bias", {out}, unit);
  };
  add("wte.weight", {config.vocab_size, width}, 0);
  add("wpe.weight", {config.n_positions, width}, 0);
  for (int64_t i = 0; i < config.n_layer; ++i) {
    const std::string layer = "h." + std::to_string(i);
    norm(layer + ".ln_1", i + 1);
    linear(layer + ".attn.c_attn", width, 3 * width, i + 1);
    linear(layer + ".attn.c_proj", width, width, i + 1);
    norm(layer + ".ln_2", i + 1);
    linear(layer + ".mlp.c_fc", width, config.inner(), i + 1);
    linear(layer + ".mlp.c_proj", config.inner(), width, i + 1);
  }
  norm("ln_f", 0);
  return list;
}

void initial_value(const Gpt2Config& config, uint64_t seed, size_t index, at::Tensor& out) {
  const ParameterInfo info = parameter_list(config).at(index);
  TORCH_CHECK(out.sizes() == at::IntArrayRef(info.shape), "initial value of ", info.name,
              ": tensor of shape ", out.sizes(), ", must be ", at::IntArrayRef(info.shape));
  if (info.name.ends_with(".bias")) {
    out.zero_();
  } else if (info.shape.size() == 1) {
    out.fill_(1);
  } else {
    const bool into_residual = info.name.ends_with(".c_proj.weight");
    const double deviation = config.initializer_range /
                             (into_residual ? std::sqrt(2.0 * static_cast<double>(config.n_layer)) : 1.0);
    transformer::fill_normal(out, deviation, seed, index);
  }
}

}  // namespace pipeline::summarization
