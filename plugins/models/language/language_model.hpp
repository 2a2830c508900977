// A causal language model as tasks see it, whatever its architecture.
#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "generation/decoder.hpp"
#include "transformer/embedding.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::language {

using transformer::Inserted;
using transformer::PackedBatch;

// Where a model's parameters go: into a registry that other parts of a larger model may share. Names begin
// with `prefix`; the model's unit u is the registry's unit first_unit + u.
struct Place {
  std::shared_ptr<ParameterRegistry> registry = std::make_shared<ParameterRegistry>();
  std::string prefix = {};
  uint32_t first_unit = 0;
};

// Unit 0 is what both ends use, the embedding and the output head, so it is passed through twice; the layers
// are units 1 to layer_count(). The forward pass reads the registered tensors, so their storage may be
// replaced (set_data) at any time between passes. Not for several threads at once.
class LanguageModel : public generation::DecoderModel {
 public:
  static constexpr bool kOwnPrecision = true;

  explicit LanguageModel(Place place) : place_(std::move(place)) {}

  // The loss over the rows with a target. Without gradients (at::NoGradGuard) only the loss is computed.
  virtual LossSum loss(const PackedBatch& batch, const ForwardPass& pass,
                       const Inserted& inserted = {}) const = 0;

  // Logits of the given rows, in fp32; no dropout, no gradients. rows: (R) int64 -> (R, vocabulary).
  virtual at::Tensor logits(const PackedBatch& batch, const at::Tensor& rows,
                            at::ScalarType compute = at::kFloat, const Inserted& inserted = {}) const = 0;

  // Floating-point operations of forward and backward.
  virtual double flops(const PackedBatch& batch) const = 0;

  virtual int64_t vocabulary() const = 0;

  // For generation; tokens, positions: (N) int64 -> (N, C).
  virtual at::Tensor embed_with(const at::Tensor& tokens, const at::Tensor& positions,
                                const Inserted& inserted) const = 0;
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions) const final {
    return embed_with(tokens, positions, {});
  }

  ParameterRegistry& parameters() { return *place_.registry; }
  const ParameterRegistry& parameters() const { return *place_.registry; }
  const Place& place() const { return place_; }

 protected:
  std::string name(const std::string& plain) const { return place_.prefix + plain; }
  uint32_t unit(uint32_t own) const { return place_.first_unit + own; }

  // For a `table` that is both embedding and output head; null where it is not (undefined), or is frozen.
  static std::shared_ptr<transformer::SharedGradient> shared_gradient(const at::Tensor& table,
                                                                      const ForwardPass& pass) {
    if (!table.defined() || !table.requires_grad()) return nullptr;
    auto shared = std::make_shared<transformer::SharedGradient>();
    if (!pass.deliver_rows) return shared;
    shared->take_head = [table, deliver = pass.deliver](at::Tensor head) { deliver(table, std::move(head)); };
    shared->take_rows = [table, deliver = pass.deliver_rows](const at::Tensor& rows,
                                                             const at::Tensor& values) {
      deliver(table, rows, values);
    };
    return shared;
  }

 private:
  Place place_;
};

// For the log: what an import has made of the `count` tokens that ours has behind the folder's, or below 0 of
// the folder's rows that have no token here. Empty: there are none.
inline std::string note_of_vocabulary(const std::string& folder, int64_t vocabulary, int64_t count) {
  if (count == 0) return {};
  if (count < 0)
    return concat(folder, " has ", -count, " row(s) for which the tokenizer has no token, from number ",
                  vocabulary, " on: they are left out");
  return concat("the tokenizer has ", count, " token(s) that ", folder, " does not have, from number ",
                vocabulary - count, " on: their rows start as the mean of the others");
}

}  // namespace pipeline::language
