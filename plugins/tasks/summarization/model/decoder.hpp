#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "gpt2.hpp"

namespace pipeline::summarization {

// GPT-2 one token at a time, for many sequences at once, each with its own length: the keys and values of all
// tokens so far are kept. A slot is one sequence being written. On the CPU in fp32 a slot's logits do not
// depend on the other slots, to the bit.
class Decoder {
 public:
  // `slots_per_prompt` sequences continue each prompt. Throws where a prompt and `new_tokens` exceed
  // n_positions, or is empty.
  Decoder(Gpt2& model, const std::vector<std::vector<int64_t>>& prompts, int64_t slots_per_prompt,
          int64_t new_tokens, at::ScalarType compute = at::kFloat);

  // Logits (prompts, vocab_size) in fp32 after each prompt.
  at::Tensor prompt_logits();

  // Appends tokens[i] to slots[i] (ascending, each once) -> (slots, vocab_size) in fp32 after it.
  at::Tensor append(std::span<const int64_t> slots, std::span<const int64_t> tokens);

  // Slot first + i of a prompt's slots goes on from what slot first + from[i] was, for all i <
  // slots_per_prompt.
  void reorder(int64_t prompt, std::span<const int64_t> from);

 private:
  at::Tensor run(at::Tensor x, const transformer::AttentionLayout& layout,
                 const std::vector<int64_t>& cache_rows);

  Gpt2& model_;
  at::ScalarType compute_;
  int64_t slots_per_prompt_;
  int64_t capacity_;  // tokens per slot
  transformer::Ragged prompts_;
  std::vector<int64_t> prompt_tokens_;
  std::vector<int64_t> lengths_;   // (slots) tokens so far
  std::vector<at::Tensor> cache_;  // per layer (slots * capacity, 2C): key and value of each token
};

}  // namespace pipeline::summarization
