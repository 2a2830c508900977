#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "plugins/tasks/protein/model/protein_model.hpp"

namespace pipeline::protein::esm2 {

// The tokens of ESM-2 by number, in the order of its vocab.txt.
constexpr std::array<std::string_view, 33> kVocabulary = {
    "<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S", "E",        "R",
    "T",     "I",     "D",     "P",     "K", "Q", "N", "F", "Y", "M",        "H",
    "W",     "C",     "X",     "B",     "U", "Z", "O", ".", "-", "<null_1>", "<mask>"};
constexpr int64_t kCls = 0, kPad = 1, kEos = 2, kMask = 32;

// By our number: the twenty amino acids, the unknown one, the mask.
using TokenTable = std::array<int64_t, kTokenCount>;
const TokenTable& token_table();

}  // namespace pipeline::protein::esm2
