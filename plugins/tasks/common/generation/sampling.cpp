#include "sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace pipeline::generation {
namespace {

uint64_t mix(uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

int64_t likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace

double uniform(uint64_t seed, uint64_t sample_id, uint64_t step) {
  return static_cast<double>(mix(mix(mix(seed) ^ sample_id) ^ step) >> 11) * 0x1p-53;
}

int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, double draw) {
  if (options.temperature == 0) return likeliest(logits);
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order.size()) {
    std::nth_element(order.begin(), order.begin() + options.top_k, order.end(), likelier);
    order.resize(static_cast<size_t>(options.top_k));
  }
  std::sort(order.begin(), order.end(), likelier);

  const double top = logits[static_cast<size_t>(order.front())];
  std::vector<double> weights;
  double total = 0;
  for (const int64_t token : order) {
    weights.push_back(std::exp((logits[static_cast<size_t>(token)] - top) / options.temperature));
    total += weights.back();
  }
  if (options.top_p < 1) {
    double sum = 0;
    size_t kept = 0;
    while (kept < weights.size() && (kept == 0 || sum < options.top_p * total)) sum += weights[kept++];
    weights.resize(kept);
    total = sum;
  }
  double left = draw * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[weights.size() - 1];  // the sum was rounded up
}

}  // namespace pipeline::generation
