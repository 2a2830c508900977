#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {

// The tokens of ESM-2 by number, in the order of its vocab.txt.
constexpr std::array<std::string_view, 33> kVocabulary = {
    "<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S", "E",        "R",
    "T",     "I",     "D",     "P",     "K", "Q", "N", "F", "Y", "M",        "H",
    "W",     "C",     "X",     "B",     "U", "Z", "O", ".", "-", "<null_1>", "<mask>"};
constexpr int64_t kCls = 0, kPad = 1, kEos = 2, kMask = 32;

// The token for each of our numbers: the twenty amino acids, the unknown one, the mask, rare letters.
using TokenTable = std::array<int64_t, residues::kCodeCount>;
const TokenTable& token_table();

// In the training of the published models 15% of the residues were chosen, and 80% of these shown as <mask>.
// transformers has the number in its code, and so no folder can carry another.
constexpr double kTrainedMaskRatio = 0.15 * 0.8;

// A batch as ESM-2 reads it: each chain of each sample is a sequence of its own, <cls> residues <eos>, end to
// end: R rows in all.
struct Sequences {
  Sequences(const protein::PackedProteins& batch, bool token_dropout);

  transformer::Ragged rows;
  std::vector<int64_t> targets;  // (T) the rows of the batch's target_rows
  at::Tensor tokens;             // (R) int64, in ESM-2's vocabulary
  // (R) int64: <cls> at 0, the first residue at 1, as far on as the chain's numbering, <eos> after the last.
  at::Tensor positions;
  // (R) fp32, or undefined without token dropout: what a token's embedding is multiplied by. 0 for <mask>;
  // otherwise the same for all tokens of a sequence, as much as makes up for the share of masks in it being
  // another than in training.
  at::Tensor scale;
};

}  // namespace pipeline::encoder
