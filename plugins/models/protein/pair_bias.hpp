// Attention biases made from pairs of residues: a small network over what two residues look like from each
// other.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "transformer/attention.hpp"

namespace pipeline::protein {

// Radial basis functions of a distance in ångström: exp(-kGaussianFactor (d - centre)^2).
constexpr int64_t kGaussians = 16;
constexpr float kFirstGaussian = 2;
constexpr float kGaussianStep = 20.0f / 15;
constexpr float kGaussianFactor = 1 / (2 * 1.25f * 1.25f);

constexpr float kLeastDistance = 1e-4f;  // ångström; a residue has no direction to itself

// Features of the pair (i, j), none of which a rotation or translation of the whole changes:
//   0..15   Gaussians of the distance between the CA, centres from 2 to 22 Å (ProteinMPNN's), 1.25 Å wide
//   16..18  the direction to CA of j in the frame of i, 19..21 the direction to CA of i in the frame of j
//   22..30  the rotation from the frame of j to that of i, row by row
//   31      1 where the distance is not known
// A direction or rotation that is not known is zero. Beside these, one of kOffsets classes: j's position
// along the chain less i's, cut at +-32, or another chain.
constexpr int64_t kPairFeatures = 32;
constexpr int64_t kFarthestOffset = 32;
constexpr int64_t kOffsets = 2 * kFarthestOffset + 2;

// bias = gelu(features W + offsets[class]) out: no biases of its own, since a class has one and a constant
// changes no softmax.
struct PairNetwork {
  at::Tensor weight;   // (kPairFeatures, P)
  at::Tensor offsets;  // (kOffsets, P)
  at::Tensor out;      // (layers, P, heads)
};

// The residues that pairs are made of: rows as in PackedProteins.
struct PairInputs {
  at::Tensor frames;                    // (N, 12)
  at::Tensor flags;                     // (N) uint8
  at::Tensor positions;                 // (N) int64
  at::Tensor chains;                    // (N) int64
  transformer::AttentionLayout layout;  // which pairs: that of the attention which the bias is for
  std::vector<int64_t> query_rows;      // (layout.queries.rows()) which rows these are, ascending; empty: all
};

// For each layer the bias that ragged_attention takes. Differentiable in the network's tensors, which may
// have any dtype. On the CPU the pairs are computed block by block, in the backward pass again, so that
// nothing larger than a bias is kept.
std::vector<at::Tensor> pair_bias(const PairInputs& inputs, const PairNetwork& network);

// pair_bias() by LibTorch, on any device: (pairs, layers * heads), all pairs at once. Features are made in
// fp32 at least, whatever the network's dtype: a coordinate of 100 Å is half an ångström off in bf16.
at::Tensor pair_values(const PairInputs& inputs, const PairNetwork& network,
                       const transformer::PairIndex& pairs);

}  // namespace pipeline::protein
