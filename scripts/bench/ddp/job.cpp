#include "job.hpp"

#include <random>

namespace bench {

using namespace pipeline::summarization;

Gpt2Config config_of(const Job& job) {
  Gpt2Config config;
  config.n_layer = job.layers;
  config.n_head = job.heads;
  config.n_embd = job.width;
  return config;
}

std::unique_ptr<Gpt2> make_model(const Job& job) {
  auto model = std::make_unique<Gpt2>(config_of(job));
  for (size_t i = 0; i < model->parameters().size(); ++i) {
    at::Tensor value = model->parameters()[i].tensor.detach();
    model->parameters().initialize(i, 1, value);
  }
  return model;
}

std::vector<at::Tensor> tensors_of(const Gpt2& model) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : model.parameters()) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<Batch> make_batches(const Job& job) {
  constexpr int kBatches = 5;
  std::mt19937_64 random(7);
  const auto between = [&](int least, int most) {
    return static_cast<int64_t>(std::uniform_int_distribution<int>(least, most)(random));
  };
  std::vector<Batch> batches;
  for (int b = 0; b < kBatches; ++b) {
    std::vector<std::vector<int64_t>> tokens, targets;
    double weight = 0;
    for (int i = 0; i < job.batch; ++i) {
      const int64_t length = between(job.tokens / 2, job.tokens);
      const int64_t summary = between(job.tokens / 16, job.tokens / 8);
      std::vector<int64_t> sequence, wanted(static_cast<size_t>(length), -1);
      for (int64_t t = 0; t < length; ++t) sequence.push_back(between(0, 50256));
      for (int64_t t = length - summary; t < length; ++t) wanted[static_cast<size_t>(t)] = between(0, 50256);
      weight += static_cast<double>(summary);
      if (i * job.place.ranks / job.batch != job.place.rank) continue;
      tokens.push_back(std::move(sequence));
      targets.push_back(std::move(wanted));
    }
    batches.push_back({pipeline::transformer::pack(tokens, targets), weight});
  }
  return batches;
}

}  // namespace bench
