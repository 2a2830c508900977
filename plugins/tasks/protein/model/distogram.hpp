// Distances of masked residues, predicted as distributions over bins (a distogram: Senior et al. 2020,
// AlphaFold).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "transformer/blocks.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::protein {

// Bin b < kDistanceBins - 1 holds CA distances from kFirstDistance + b kDistanceStep on; the last one all
// that are farther.
constexpr int64_t kDistanceBins = 32;
constexpr double kFirstDistance = 2,
                 kDistanceStep = 20.0 / (kDistanceBins - 2);  // ångström; nearer ones are in the first bin

// logits(i, j) = ((h_i W_target) * (g_j W_other)) out, with h and g the normed states of a masked residue and
// of any other one.
struct DistogramHead {
  transformer::Norm target_norm, other_norm;
  at::Tensor target, other;  // (C, D)
  transformer::Linear out;   // (D, kDistanceBins)
};

struct DistogramInputs {
  at::Tensor targets;  // (T, C) states of the masked residues
  at::Tensor others;   // (N, C) states of all residues
  at::Tensor places;   // (N, 3) CA in ångström
  at::Tensor placed;   // (N) bool: whether there is a CA
  transformer::Ragged samples;
  transformer::Ragged target_samples;  // of the T
  std::vector<int64_t> target_rows;    // (T) which of the N each is
  at::Tensor hidden;                   // (N) bool: whether the model was not given the place
};

// The sum over masked residues of the mean over the others of their sample of the cross-entropy, in nats:
// fp32 scalar, differentiable. Residues without CA count on neither side; of the masked ones only those whose
// place is hidden (one that is shown with another amino acid is not).
at::Tensor distogram_loss(const DistogramInputs& inputs, const DistogramHead& head);

}  // namespace pipeline::protein
