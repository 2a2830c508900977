#pragma once

#include <cstdint>

namespace pipeline::summarization {

// As in a Hugging Face config.json; the defaults are GPT-2's with 124 million parameters.
struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // 0: 4 n_embd
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double resid_pdrop = 0.1;
  int64_t bos_token_id = 50256;
  int64_t eos_token_id = 50256;

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

}  // namespace pipeline::summarization
