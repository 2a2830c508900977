// What the task asks of a model of proteins, and the batch that both models read.
#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/residues/alphabet.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::protein {

using transformer::Ragged;

// Samples laid end to end. Tokens are an amino acid, kUnknown or kMaskToken, as the model is to see them, or
// one of kRareLetters where it has tokens for them; positions go along the chain; targets are amino acids.
struct PackedProteins : transformer::PackedBatch {
  at::Tensor chains;  // (N) int64 the chain within the sample, from 0
  // Undefined where the model sees no structure:
  at::Tensor frames;  // (N, 12) float: see geometry.hpp; zero where missing or hidden
  at::Tensor local;   // (N, kLocalFeatures) float: see geometry.hpp
  at::Tensor flags;   // (N) uint8: Residue::Flags; 0 where coordinates are hidden
  at::Tensor places;  // (N, 3) float: CA also of residues whose coordinates are hidden, and
  at::Tensor placed;  // (N) bool: whether there is one; undefined where no model is to predict them
  // Undefined but where labels are learnt: targets are then classes, or of no meaning.
  at::Tensor values;       // (T) float: numbers at target_rows, as they are learnt
  at::Tensor pair_labels;  // (sum of L x L over chains) uint8: kContact, kNoContact, kNoPair

  // Set by index().
  std::vector<int64_t> visible_rows;  // whose token is not kMaskToken
  Ragged chain_rows;                  // the chains of all samples, one after another

  // To be called when the tensors are filled, in host memory.
  void index() {
    const int64_t* const token = tokens.const_data_ptr<int64_t>();
    const int64_t* const chain = chains.const_data_ptr<int64_t>();
    visible_rows.clear();
    chain_rows = {};
    for (int64_t s = 0; s < sequences.sequences(); ++s) {
      int64_t length = 0;
      for (int64_t n = sequences.start(s); n < sequences.start(s + 1); ++n) {
        if (token[n] != residues::kMaskToken) visible_rows.push_back(n);
        if (length > 0 && chain[n] != chain[n - 1]) chain_rows.append(std::exchange(length, 0));
        ++length;
      }
      if (length > 0) chain_rows.append(length);
    }
  }

  template <class V>
  void tensors(V&& visit) {
    PackedBatch::tensors(visit);
    visit(chains);
    visit(frames);
    visit(local);
    visit(flags);
    visit(places);
    visit(placed);
    visit(values);
    visit(pair_labels);
  }
};

// What a model predicts of a batch. Not differentiable.
struct Outputs {
  at::Tensor log_probabilities;  // (T, 20) fp32: of the twenty amino acids at target_rows, among themselves
  at::Tensor
      log_share;  // (T) fp32: ln of what they have together of all tokens; undefined: there are no others
  at::Tensor distance_loss;  // scalar: see distogram_loss(); undefined where the model predicts no distances
};

// What a model makes of residues and of whole chains. Not differentiable.
struct Embeddings {
  at::Tensor residues;  // (N, C) fp32
  at::Tensor chains;    // (chains, C) fp32: of the token before each chain; undefined where a model has none
};

// Methods are called from the main thread.
class ProteinModel {
 public:
  static constexpr bool kOwnPrecision = true;
  virtual ~ProteinModel() = default;

  ParameterRegistry& parameters() { return parameters_; }
  const ParameterRegistry& parameters() const { return parameters_; }

  // Cross-entropy summed over the targets, in nats; for labels see LabelHead::loss().
  virtual LossSum loss(const PackedProteins& batch, const ForwardPass& pass) const = 0;
  // The predictions, without dropout.
  virtual Outputs outputs(const PackedProteins& batch, const ForwardPass& pass) const = 0;
  // The predictions of a model of labels, in the form of LabelHead::told(): (T, outputs), or for pairs (sum
  // of L x L), fp32. Not differentiable; without dropout.
  virtual at::Tensor labels(const PackedProteins& /*batch*/, const ForwardPass& /*pass*/) const {
    fail("the model predicts no labels");
  }
  // Embeddings of a batch in which nothing is masked. layer: from 0, what the first layer gets, to layers(),
  // what the last one gives, normalised; a model may have the last alone.
  virtual Embeddings embeddings(const PackedProteins& batch, const ForwardPass& pass,
                                int64_t layer) const = 0;
  virtual int64_t layers() const = 0;
  virtual int64_t width() const = 0;  // C
  // Floating-point operations of forward and backward.
  virtual double flops(const PackedProteins& batch) const = 0;

  // The parameters start as those of a folder of another tool. Throws unless it holds this model.
  virtual void import_folder(const std::filesystem::path& folder) = 0;
  virtual void export_folder(const std::filesystem::path& folder) const = 0;
  // What an imported folder has besides parameters and an export gives back; every checkpoint carries it.
  // Empty: nothing.
  virtual std::string extra_state() const { return ""; }
  virtual void set_extra_state(std::string_view /*state*/) {}

 protected:
  ParameterRegistry parameters_;
};

}  // namespace pipeline::protein
