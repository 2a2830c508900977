#include "plugins/models/protein/encoder_decoder.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>

#include "transformer/packed_batch.hpp"

namespace pipeline::protein {
namespace {

at::Tensor normed(const at::Tensor& x, const transformer::Norm& norm) {
  return at::layer_norm(x, {x.size(1)}, norm.weight, norm.bias, norm.eps);
}

at::Tensor bins_of(const at::Tensor& from, const at::Tensor& to) {  // (T, N) of one sample
  const at::Tensor distance = (from.unsqueeze(1) - to.unsqueeze(0)).square().sum(-1).sqrt();
  return distance.sub(kFirstDistance).div(kDistanceStep).floor().clamp(0, kDistanceBins - 1).to(at::kLong);
}

}  // namespace

at::Tensor distogram_loss(const DistogramInputs& inputs, const DistogramHead& head) {
  const at::Tensor a = normed(inputs.targets, head.target_norm).matmul(head.target),
                   b = normed(inputs.others, head.other_norm).matmul(head.other);
  // Leads to the parameters even where nothing is masked.
  at::Tensor sum = at::zeros({}, a.options().dtype(at::kFloat)) + (a.sum(at::kFloat) + b.sum(at::kFloat)) * 0;
  for (int64_t s = 0; s < inputs.samples.sequences(); ++s) {
    const int64_t count = inputs.target_samples.length(s), begin = inputs.samples.start(s),
                  length = inputs.samples.length(s);
    if (count == 0) continue;
    const int64_t* const rows = inputs.target_rows.data() + inputs.target_samples.start(s);
    const at::Tensor index = transformer::to_device({rows, static_cast<size_t>(count)}, a.device());
    const at::Tensor from = inputs.places.index_select(0, index), to = inputs.places.narrow(0, begin, length);
    const at::Tensor features = a.narrow(0, inputs.target_samples.start(s), count).unsqueeze(1) *
                                b.narrow(0, begin, length).unsqueeze(0);
    const at::Tensor log_p = at::log_softmax(features.matmul(head.out.weight) + head.out.bias, -1,
                                             at::kFloat);  // (count, length, bins)
    const at::Tensor nll = log_p.gather(2, bins_of(from, to).unsqueeze(2)).squeeze(2).neg();
    const at::Tensor self =
        index.unsqueeze(1).eq(at::arange(begin, begin + length, index.options()).unsqueeze(0));
    const at::Tensor counts = inputs.placed.logical_and(inputs.hidden)
                                  .index_select(0, index)
                                  .unsqueeze(1)
                                  .logical_and(inputs.placed.narrow(0, begin, length).unsqueeze(0))
                                  .logical_and(self.logical_not())
                                  .to(nll.scalar_type());
    sum = sum + ((nll * counts).sum(1) / counts.sum(1).clamp_min(1)).sum();
  }
  return sum;
}

}  // namespace pipeline::protein
