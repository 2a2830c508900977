// The options of a task's training loss, [task.loss].
#pragma once

#include <pipeline/options.hpp>
#include <pipeline/torch/forward.hpp>

#include "transformer/cross_entropy_head.hpp"

namespace pipeline::language {

struct LossOptions : transformer::LossTerms {
  void describe(Options& o) {
    o("z_loss", z_loss,
      "training adds this x logsumexp(logits)^2 of each target to its loss, which keeps logits near 0 (PaLM: "
      "1e-4); an evaluation's loss stays the plain cross entropy")
        .min(0);
    o("label_smoothing", label_smoothing,
      "in training this share of each target is spread over all tokens alike, as by PyTorch's cross_entropy; "
      "an evaluation's loss stays the plain cross entropy")
        .min(0)
        .below(1);
  }
  // The terms that are added in this pass.
  transformer::LossTerms of(const ForwardPass& pass) const {
    return pass.training ? static_cast<const transformer::LossTerms&>(*this) : transformer::LossTerms{};
  }
};

}  // namespace pipeline::language
