// What the task asks of a model of proteins, and the batch that both models read.
#pragma once

#include <ATen/core/Tensor.h>
#include <pipeline/torch/checkpoint.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/tasks/protein/model/parameters.hpp"
#include "plugins/tasks/protein/model/tokens.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/ragged.hpp"

namespace pipeline::protein {

// Samples laid end to end: N residues in all, without padding.
struct PackedBatch {
  transformer::Ragged samples;
  at::Tensor tokens;     // (N) int64: amino acid, kUnknown or kMaskToken, as the model is to see it
  at::Tensor positions;  // (N) int64 along the chain, from 0
  at::Tensor chains;     // (N) int64 the chain within the sample, from 0
  at::Tensor frames;     // (N, 12) float: see geometry.hpp; zero where missing or hidden
  at::Tensor local;      // (N, kLocalFeatures) float: see geometry.hpp
  at::Tensor flags;      // (N) uint8: Residue::Flags; 0 where coordinates are hidden
  at::Tensor places;     // (N, 3) float: CA also of residues whose coordinates are hidden, and
  at::Tensor placed;     // (N) bool: whether there is one; undefined where no model is to predict them
  at::Tensor targets;    // (T) int64: the amino acids wanted at target_rows
  std::vector<int64_t> target_rows;  // (T) ascending

  // Kept on the host, so that no model waits for the device: what index() finds.
  std::vector<int64_t> visible_rows;  // whose token is not kMaskToken
  transformer::Ragged chain_rows;     // the chains of all samples, one after another

  // To be called when the tensors are filled, in host memory.
  void index();

  template <class V>
  void tensors(V&& visit) {
    visit(tokens);
    visit(positions);
    visit(chains);
    visit(frames);
    visit(local);
    visit(flags);
    visit(places);
    visit(placed);
    visit(targets);
  }
};

struct ForwardOptions {
  bool training = false;
  uint64_t dropout_seed = 0;
  at::ScalarType compute = at::kFloat;  // of the matrix products
  double scale = 1;                     // of the gradients
};

// Not differentiable.
struct Outputs {
  at::Tensor log_probabilities;  // (T, 20) fp32: of the twenty amino acids at target_rows
  at::Tensor distance_loss;      // scalar: see distogram_loss(); undefined where the model predicts no distances
};

using UnitBody = std::function<Tensors(const Tensors&)>;
// Runs `body` as unit k of the model: Units::run with the unit's parameters.
using UnitWrapper = std::function<Tensors(int64_t unit, const Tensors& inputs, const UnitBody& body)>;

// Parameters have their units; the model runs every layer through run_unit(). Methods are called from the main thread.
class ProteinModel {
 public:
  virtual ~ProteinModel() = default;

  // For the SDK.
  std::vector<std::pair<std::string, at::Tensor>> named_parameters() const { return parameters_.named(); }
  const Parameters& parameters() const { return parameters_; }
  void set_unit_wrapper(UnitWrapper wrapper) { wrapper_ = std::move(wrapper); }
  // Whether the unit is a layer, whose activations may be computed again; others are the ends, and what is between encoder and decoder.
  virtual bool is_layer(uint32_t unit) const { return unit > 0; }
  // Of one layer, for recomputation.
  std::vector<at::Tensor> unit_parameters(uint32_t unit) const;

  // Cross-entropy summed over the targets, in nats; call backward() on .scaled.
  virtual transformer::Loss loss(const PackedBatch& batch, const ForwardOptions& options) = 0;
  virtual Outputs outputs(const PackedBatch& batch, at::ScalarType compute) = 0;
  at::Tensor log_probabilities(const PackedBatch& batch, at::ScalarType compute) { return outputs(batch, compute).log_probabilities; }
  // Floating-point operations of forward and backward.
  virtual double flops(const PackedBatch& batch) const = 0;

  // Folders of other tools. import_folder() checks the folder and keeps it open, imported() then writes parameter `index`.
  virtual void import_folder(const std::filesystem::path& folder) = 0;
  virtual bool has_imported() const = 0;
  virtual void imported(size_t index, at::Tensor& out) = 0;
  virtual void export_folder(const std::filesystem::path& folder) const = 0;
  // What an imported folder has besides parameters and an export gives back; every checkpoint carries it. Empty: nothing.
  virtual std::string extra_state() const { return ""; }
  virtual void set_extra_state(std::string_view /*state*/) {}

 protected:
  Tensors run_unit(int64_t unit, const Tensors& inputs, const UnitBody& body) const {
    return wrapper_ ? wrapper_(unit, inputs, body) : body(inputs);
  }

  Parameters parameters_;

 private:
  UnitWrapper wrapper_;
};

}  // namespace pipeline::protein
