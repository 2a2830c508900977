#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "transformer/attention.hpp"

namespace pipeline::generation {

// A decoder-only transformer as generation sees it: layers that attend to what came before.
class DecoderModel {
 public:
  virtual ~DecoderModel() = default;

  // Keeps the keys and values of qkv, columns q, k, v, and attends: (N, columns of q).
  using Attention = std::function<at::Tensor(const at::Tensor& qkv)>;

  virtual int64_t max_tokens() const = 0;  // of a sequence, what is generated included
  virtual int64_t layer_count() const = 0;
  virtual int64_t width() const = 0;  // C
  virtual int64_t heads() const = 0;
  virtual int64_t key_heads() const { return heads(); }  // fewer: see transformer::AttentionLayout
  virtual int64_t head_width() const { return width() / heads(); }
  // Sequences of more tokens have other positions, all of their tokens; 0: no length changes them.
  virtual int64_t positions_change_after() const { return 0; }
  // Window, scale and softcap of a layer.
  virtual transformer::AttentionLayout attention(int64_t /*layer*/) const { return {}; }
  virtual at::Device device() const = 0;
  // tokens, positions: (N) int64 -> (N, C). Here a model puts in what is no token, such as features of a
  // picture.
  virtual at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions) const = 0;
  // x (N, C), at `positions` of its sequences -> (N, C).
  virtual at::Tensor layer(int64_t index, const at::Tensor& x, const at::Tensor& positions,
                           at::ScalarType compute, const Attention& attend) const = 0;
  // x: the last layer's output (N, C) -> (N, vocabulary) fp32.
  virtual at::Tensor logits_of(const at::Tensor& x, at::ScalarType compute) const = 0;
};

// A model one token at a time, for many sequences at once, each with its own length: the keys and values of
// all tokens so far are kept. A slot is one sequence being written. On the CPU in fp32 a slot's logits do not
// depend on the other slots, to the bit.
class Decoder {
 public:
  // `slots_per_prompt` sequences continue each prompt. Throws where a prompt and `new_tokens` exceed the
  // model's max_tokens(), or is empty.
  Decoder(const DecoderModel& model, const std::vector<std::vector<int64_t>>& prompts,
          int64_t slots_per_prompt, int64_t new_tokens, at::ScalarType compute = at::kFloat);

  // Logits (prompts, vocabulary) in fp32 after each prompt.
  at::Tensor prompt_logits();

  // Appends tokens[i] to slots[i] (ascending, each once) -> (slots, vocabulary) in fp32 after it.
  at::Tensor append(std::span<const int64_t> slots, std::span<const int64_t> tokens);

  // Slot first + i of a prompt's slots goes on from what slot first + from[i] was, for all i <
  // slots_per_prompt.
  void reorder(int64_t prompt, std::span<const int64_t> from);

 private:
  at::Tensor run(at::IntArrayRef tokens, at::IntArrayRef positions,
                 const transformer::AttentionLayout& layout, const std::vector<int64_t>& cache_rows);
  at::Tensor run_layers(at::Tensor x, const at::Tensor& positions, const transformer::AttentionLayout& layout,
                        const at::Tensor& cache_rows);
  at::Tensor run_again(const std::vector<int64_t>& slots);
  std::vector<at::Tensor> kept() const;

  const DecoderModel& model_;
  at::ScalarType compute_;
  int64_t slots_per_prompt_;
  int64_t capacity_;  // tokens per slot
  transformer::Ragged prompts_;
  std::vector<int64_t> prompt_tokens_;
  std::vector<int64_t> lengths_;  // (slots) tokens so far
  std::vector<at::Tensor>
      cache_;  // per layer (slots * capacity, 2 * columns of k): key and value of each token
  // (slots * capacity, C): what the first layer reads; undefined where no length changes the positions.
  at::Tensor inputs_;
};

}  // namespace pipeline::generation
