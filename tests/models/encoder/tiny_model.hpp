#pragma once

#include <string>
#include <vector>

#include "plugins/models/encoder/protein_encoder.hpp"
#include "tests/support/declared.hpp"

namespace pipeline::encoder::testing {

using tests::named;
using tests::zero_gradients;

// 3 layers of 24 channels, 3 heads, no dropout but ESM-2's of tokens.
Config tiny_config(const Architecture& row = esm2());

// Fills in the same numbers each time; biases and norms are not 0 and 1.
void fill_with_numbers(ProteinEncoder& model);

// A sample is its chains. 'A' to 'Y': an amino acid; 'X': unknown; '#': masked, with a target; a small
// letter: visible, with itself as target; '-': a gap of one position.
using Sample = std::vector<std::string>;
protein::PackedProteins batch_of(const std::vector<Sample>& samples);

// Ragged samples, with gaps, several chains, masks, targets.
std::vector<Sample> tiny_samples();

}  // namespace pipeline::encoder::testing
