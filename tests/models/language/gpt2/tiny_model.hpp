#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "language/folder.hpp"
#include "tests/support/declared.hpp"

// The tiny GPT-2 of tests/parity/gpt2_reference.py, and what transformers computed for it.
namespace pipeline::language::testing {

using tests::named;
using tests::tensors;
using tests::zero_gradients;

Config tiny_config();  // no dropout
void fill_by_formula(const LanguageModel& model);
std::vector<std::vector<int64_t>> tiny_tokens();
std::vector<std::vector<int64_t>> tiny_targets();
PackedBatch tiny_batch();

// The checksums of gpt2_reference.py: sum, Euclidean norm, sum with changing signs.
std::vector<double> checksums(const at::Tensor& tensor);

const nlohmann::json& fixture();

}  // namespace pipeline::language::testing
