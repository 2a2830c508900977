#include "plugins/models/protein/pair_bias.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/zeros.h>

#include "plugins/data/residues/residue.hpp"
#include "plugins/models/protein/geometry.hpp"
#include "plugins/parallel/parallel.hpp"
#include "transformer/embedding.hpp"
#include "transformer/fast_path.hpp"
#include "transformer/gemm.hpp"
#include "transformer/kept.hpp"
#include "transformer/kernels/kernels.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::protein {
namespace {

using transformer::AutogradContext;
using transformer::Gelu;
using transformer::kernels;
using transformer::Variable;
using transformer::variable_list;

constexpr int64_t kBlock = 1024;  // pairs whose features exist at a time in a thread: they stay in its cache
constexpr int64_t kTaskPairs = 8192;  // pairs of a task; gradients of a task's pairs are added in its own
                                      // memory, so it is part of the sums' order

struct Centers {
  std::array<float, kGaussians> at;
  constexpr Centers() : at() {
    for (size_t k = 0; k < at.size(); ++k) at[k] = kFirstGaussian + static_cast<float>(k) * kGaussianStep;
  }
};
constexpr Centers kCenters;

// The pairs of a batch, cut into tasks that do not depend on the number of threads.
class Pairs {
 public:
  struct Task {
    int64_t sequence, first, count;  // queries first .. first + count - 1 of the sequence
  };

  explicit Pairs(const PairInputs& inputs)
      : inputs_(inputs),
        frames_(inputs.frames.const_data_ptr<float>()),
        flags_(inputs.flags.const_data_ptr<uint8_t>()),
        positions_(inputs.positions.const_data_ptr<int64_t>()),
        chains_(inputs.chains.const_data_ptr<int64_t>()) {
    starts_.push_back(0);
    for (int64_t s = 0; s < inputs.layout.keys.sequences(); ++s) {
      const int64_t queries = inputs.layout.queries.length(s), keys = inputs.layout.keys.length(s);
      starts_.push_back(starts_.back() + queries * keys);
      if (queries == 0) continue;
      const int64_t each = std::max<int64_t>(1, kTaskPairs / keys);
      for (int64_t first = 0; first < queries; first += each)
        tasks_.push_back({s, first, std::min(each, queries - first)});
    }
  }

  int64_t count() const { return starts_.back(); }
  const std::vector<Task>& tasks() const { return tasks_; }
  int64_t start(int64_t sequence) const { return starts_[static_cast<size_t>(sequence)]; }
  int64_t keys(int64_t sequence) const { return inputs_.layout.keys.length(sequence); }
  int64_t queries(int64_t sequence) const { return inputs_.layout.queries.length(sequence); }

  // Calls body(pair, count, features, classes) for blocks of a task's pairs; `pair` counts within the
  // sequence.
  template <class Body>
  void for_blocks(const Task& task, const Body& body) const {
    thread_local std::vector<float> features(static_cast<size_t>(kBlock * kPairFeatures));
    thread_local std::vector<int64_t> classes(static_cast<size_t>(kBlock));
    const int64_t keys = this->keys(task.sequence), end = (task.first + task.count) * keys;
    for (int64_t pair = task.first * keys; pair < end; pair += kBlock) {
      const int64_t count = std::min(kBlock, end - pair);
      for (int64_t p = 0; p < count;) {  // the part of a query's keys that is in this block
        const int64_t query = (pair + p) / keys, key = (pair + p) % keys,
                      run = std::min(keys - key, count - p);
        write_run(task.sequence, query, key, run, features.data() + p * kPairFeatures, classes.data() + p);
        p += run;
      }
      body(pair, count, features.data(), classes.data());
    }
  }

 private:
  void write_run(int64_t sequence, int64_t query, int64_t first_key, int64_t count, float* features,
                 int64_t* classes) const {
    const int64_t number = inputs_.layout.queries.start(sequence) + query;
    const int64_t i = inputs_.query_rows.empty() ? number : inputs_.query_rows[static_cast<size_t>(number)];
    const float* const a = frames_ + i * kFrameSize;
    const uint8_t flags = flags_[i];
    thread_local std::vector<float> distances;
    distances.resize(static_cast<size_t>(count));
    const int64_t row = inputs_.layout.keys.start(sequence) + first_key;
    for (int64_t n = 0; n < count; ++n) {
      const float* const b = frames_ + (row + n) * kFrameSize;
      const float x = b[9] - a[9], y = b[10] - a[10], z = b[11] - a[11];
      distances[static_cast<size_t>(n)] = std::sqrt(x * x + y * y + z * z);
    }
    kernels().gaussians(distances.data(), count, kCenters.at.data(), kGaussians, kGaussianFactor, features,
                        kPairFeatures);
    for (int64_t n = 0; n < count; ++n, features += kPairFeatures) {
      const int64_t j = row + n;
      const uint8_t both = flags & flags_[j];
      if ((both & residues::Residue::kHasCa) == 0) std::memset(features, 0, kGaussians * sizeof(float));
      features[kPairFeatures - 1] = (both & residues::Residue::kHasCa) == 0 ? 1.0f : 0.0f;
      if ((both & residues::Residue::kHasFrame) == 0) {
        std::memset(features + kGaussians, 0, (kPairFeatures - 1 - kGaussians) * sizeof(float));
      } else {
        write_orientation(a, frames_ + j * kFrameSize, distances[static_cast<size_t>(n)],
                          features + kGaussians);
      }
      const int64_t offset =
          std::clamp(positions_[j] - positions_[i], -kFarthestOffset, kFarthestOffset) + kFarthestOffset;
      classes[n] = chains_[j] == chains_[i] ? offset : kOffsets - 1;
    }
  }

  static void write_orientation(const float* a, const float* b, float distance, float* out) {
    const float scale = 1 / std::max(distance, kLeastDistance);
    const float x = (b[9] - a[9]) * scale, y = (b[10] - a[10]) * scale, z = (b[11] - a[11]) * scale;
    for (int r = 0; r < 3; ++r) {
      out[r] = a[3 * r] * x + a[3 * r + 1] * y + a[3 * r + 2] * z;
      out[3 + r] = -(b[3 * r] * x + b[3 * r + 1] * y + b[3 * r + 2] * z);
      for (int c = 0; c < 3; ++c)
        out[6 + 3 * r + c] = a[3 * r] * b[3 * c] + a[3 * r + 1] * b[3 * c + 1] + a[3 * r + 2] * b[3 * c + 2];
    }
  }

  const PairInputs& inputs_;
  const float* frames_;
  const uint8_t* flags_;
  const int64_t *positions_, *chains_;
  std::vector<int64_t> starts_;
  std::vector<Task> tasks_;
};

// A factor: `stride` floats from row to row as it lies in memory, which is turned if `transposed`.
struct Operand {
  const float* data;
  int64_t stride;
  bool transposed = false;
};

// c (m, n), `stride` floats from row to row, = a (m, k) b (k, n), or that is added to it.
void multiply(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, float* c, int64_t stride,
              bool add = false) {
  kernels().gemm({m, n, k, a.data, a.stride, a.transposed, b.data, b.stride, b.transposed, c, stride, add});
}

// The weights as the kernels take them, and the first layer of the network.
struct Weights {
  int64_t width, layers, heads;
  const float *weight, *offsets, *out;

  explicit Weights(const PairNetwork& network)
      : width(network.weight.size(1)),
        layers(network.out.size(0)),
        heads(network.out.size(2)),
        weight(network.weight.const_data_ptr<float>()),
        offsets(network.offsets.const_data_ptr<float>()),
        out(network.out.const_data_ptr<float>()) {}

  const float* out_of(int64_t layer) const { return out + layer * width * heads; }

  // before (count, width): what GELU is applied to.
  void first(int64_t count, const float* features, const int64_t* classes, float* before) const {
    multiply(count, width, kPairFeatures, {features, kPairFeatures}, {weight, width}, before, width);
    for (int64_t p = 0; p < count; ++p)
      kernels().add(offsets + classes[p] * width, before + p * width, width);
  }
};

int64_t work(const Pairs& pairs, const Weights& w) {
  return pairs.count() * (2 * kPairFeatures + 2 * w.layers * w.heads + 64) * w.width;
}

std::vector<float>& scratch_floats(size_t which, int64_t count) {
  thread_local std::array<std::vector<float>, 3> memory;
  if (memory[which].size() < static_cast<size_t>(count)) memory[which].resize(static_cast<size_t>(count));
  return memory[which];
}

class PairBias : public torch::autograd::Function<PairBias> {
 public:
  static variable_list forward(AutogradContext* ctx, const Variable& weight, const Variable& offsets,
                               const Variable& out, const PairInputs& inputs) {
    const Pairs pairs(inputs);
    const Weights w({weight, offsets, out});
    variable_list biases;
    std::vector<float*> to;
    for (int64_t l = 0; l < w.layers; ++l) {
      biases.push_back(at::empty({pairs.count() * w.heads}, weight.options()));
      to.push_back(biases.back().mutable_data_ptr<float>());
    }
    parallel::tasks(static_cast<int64_t>(pairs.tasks().size()), work(pairs, w), [&](int64_t number) {
      const Pairs::Task& task = pairs.tasks()[static_cast<size_t>(number)];
      float* const hidden = scratch_floats(0, kBlock * w.width).data();
      const int64_t all = pairs.queries(task.sequence) * pairs.keys(task.sequence),
                    at = pairs.start(task.sequence) * w.heads;
      pairs.for_blocks(task, [&](int64_t pair, int64_t count, const float* features, const int64_t* classes) {
        w.first(count, features, classes, hidden);
        kernels().gelu(Gelu::kTanh, hidden, hidden, count * w.width);
        for (int64_t l = 0; l < w.layers; ++l)
          multiply(w.heads, count, w.width, {w.out_of(l), w.heads, true}, {hidden, w.width, true},
                   to[static_cast<size_t>(l)] + at + pair, all);
      });
    });
    transformer::keep(ctx, inputs);
    ctx->save_for_backward({weight, offsets, out});
    return biases;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Pairs pairs(transformer::kept<PairInputs>(ctx));
    const Weights w({saved[0], saved[1], saved[2]});
    std::vector<const float*> from;
    for (at::Tensor& grad : grads) {
      grad = grad.contiguous();
      from.push_back(grad.const_data_ptr<float>());
    }
    // Each task adds up its own gradients of weight, offsets and out, one after another; they are added in
    // the order of the tasks.
    const int64_t weight_size = kPairFeatures * w.width, offsets_size = kOffsets * w.width,
                  size = weight_size + offsets_size + saved[2].numel();
    const auto tasks = static_cast<int64_t>(pairs.tasks().size());
    const at::Tensor parts = at::zeros({std::max<int64_t>(tasks, 1), size}, saved[0].options());
    float* const parts_data = parts.mutable_data_ptr<float>();
    parallel::tasks(tasks, 3 * work(pairs, w), [&](int64_t number) {
      const Pairs::Task& task = pairs.tasks()[static_cast<size_t>(number)];
      float *const before = scratch_floats(0, kBlock * w.width).data(),
                   *const hidden = scratch_floats(1, kBlock * w.width).data(),
                   *const d = scratch_floats(2, kBlock * w.width).data();
      float *const dweight = parts_data + number * size, *const doffsets = dweight + weight_size,
                   *const dout = doffsets + offsets_size;
      const int64_t all = pairs.queries(task.sequence) * pairs.keys(task.sequence),
                    at = pairs.start(task.sequence) * w.heads;
      pairs.for_blocks(task, [&](int64_t pair, int64_t count, const float* features, const int64_t* classes) {
        w.first(count, features, classes, before);
        for (int64_t l = 0; l < w.layers; ++l)  // d (count, width) = sum over layers of dbias^T out^T
          multiply(count, w.width, w.heads, {from[static_cast<size_t>(l)] + at + pair, all, true},
                   {w.out_of(l), w.heads, true}, d, w.width, l > 0);
        kernels().gelu_backward(Gelu::kTanh, before, hidden, d, count * w.width);
        for (int64_t l = 0; l < w.layers; ++l)  // dout (width, heads) += hidden^T dbias^T
          multiply(w.width, w.heads, count, {hidden, w.width, true},
                   {from[static_cast<size_t>(l)] + at + pair, all, true}, dout + l * w.width * w.heads,
                   w.heads, true);
        multiply(kPairFeatures, w.width, count, {features, kPairFeatures, true}, {d, w.width}, dweight,
                 w.width, true);
        for (int64_t p = 0; p < count; ++p)
          kernels().add(d + p * w.width, doffsets + classes[p] * w.width, w.width);
      });
    });
    at::Tensor sum = at::empty({size}, parts.options());
    kernels().column_sum(parts_data, sum.mutable_data_ptr<float>(), parts.size(0), size, 0, size);
    return {sum.narrow(0, 0, weight_size).view_as(saved[0]).clone(),
            sum.narrow(0, weight_size, offsets_size).view_as(saved[1]).clone(),
            sum.narrow(0, weight_size + offsets_size, saved[2].numel()).view_as(saved[2]).clone(),
            Variable()};
  }
};

struct PairFeatures {
  at::Tensor features;  // (pairs, kPairFeatures)
  at::Tensor classes;   // (pairs) int64
};

PairFeatures pair_features(const PairInputs& inputs, const transformer::PairIndex& pairs,
                           at::ScalarType dtype) {
  const at::Tensor i = inputs.query_rows.empty()
                           ? pairs.query
                           : transformer::to_device(inputs.query_rows, pairs.query.device())
                                 .index_select(0, pairs.query),
                   j = pairs.key;
  const auto both = [&](int64_t flag) {  // (pairs, 1)
    const at::Tensor has = inputs.flags.bitwise_and(flag).ne(0).to(dtype);
    return (has.index_select(0, i) * has.index_select(0, j)).unsqueeze(1);
  };
  const at::Tensor frames = inputs.frames.to(dtype), frames_i = frames.index_select(0, i),
                   frames_j = frames.index_select(0, j), known = both(residues::Residue::kHasCa),
                   framed = both(residues::Residue::kHasFrame);
  const auto rotation = [](const at::Tensor& of) { return of.narrow(1, 0, 9).view({-1, 3, 3}); };
  const auto ca = [](const at::Tensor& of) { return of.narrow(1, 9, 3); };
  const auto seen_from = [&](const at::Tensor& of, const at::Tensor& direction) {  // (pairs, 3)
    return (rotation(of) * direction.unsqueeze(1)).sum(2);
  };

  const at::Tensor to = ca(frames_j) - ca(frames_i);
  const at::Tensor distance = to.square().sum(1, /*keepdim=*/true).sqrt();
  const at::Tensor centers = at::arange(kGaussians, to.options()) * kGaussianStep + kFirstGaussian;
  const at::Tensor gaussians = (distance - centers).square().mul(-kGaussianFactor).exp();
  const at::Tensor direction = to / distance.clamp_min(kLeastDistance);
  const at::Tensor turn =
      (rotation(frames_i).unsqueeze(2) * rotation(frames_j).unsqueeze(1)).sum(3).view({-1, 9});

  PairFeatures result;
  result.features = at::cat({gaussians * known, seen_from(frames_i, direction) * framed,
                             seen_from(frames_j, -direction) * framed, turn * framed, 1 - known},
                            1);
  const auto difference = [&](const at::Tensor& of) { return of.index_select(0, j) - of.index_select(0, i); };
  const at::Tensor offset =
      difference(inputs.positions).clamp(-kFarthestOffset, kFarthestOffset).add(kFarthestOffset);
  result.classes = offset.masked_fill(difference(inputs.chains).ne(0), kOffsets - 1);
  return result;
}

}  // namespace

std::vector<at::Tensor> pair_bias(const PairInputs& inputs, const PairNetwork& network) {
  if (!transformer::fast_path(inputs.frames) || network.weight.scalar_type() == at::kDouble) {
    const transformer::AttentionLayout layout = transformer::shared_by_layers(inputs.layout);
    const transformer::PairIndex pairs = transformer::pairs_of(layout, inputs.frames.device());
    return transformer::biases_of_pairs(pair_values(inputs, network, pairs), pairs, layout);
  }
  const auto as_kernels_take = [](const at::Tensor& x) { return x.to(at::kFloat).contiguous(); };
  return PairBias::apply(as_kernels_take(network.weight), as_kernels_take(network.offsets),
                         as_kernels_take(network.out), inputs);
}

at::Tensor pair_values(const PairInputs& inputs, const PairNetwork& network,
                       const transformer::PairIndex& pairs) {
  const at::ScalarType narrow = network.weight.scalar_type(), wide = transformer::wide(narrow);
  PairFeatures of = pair_features(inputs, pairs, wide);
  of.features = of.features.to(narrow);
  // Gradients of offsets add up over all pairs.
  const at::Tensor offsets = transformer::look_up(network.offsets.to(wide), of.classes).to(narrow);
  const at::Tensor hidden = at::gelu(of.features.matmul(network.weight) + offsets, "tanh");
  return hidden.matmul(network.out.transpose(0, 1).flatten(1));
}

}  // namespace pipeline::protein
