// The options of the protein task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/proteins/masking.hpp"
#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/models/encoder/protein_encoder.hpp"
#include "plugins/models/protein/encoder_decoder.hpp"

namespace pipeline::tasks::protein {

using pipeline::protein::EncoderDecoderConfig;

struct MaskConfig : proteins::MaskingOptions {  // its ratio is ProteinConfig::mask_ratio
  void describe(Options& o) {
    o("random", random, "share of masked residues that training replaces by a random amino acid")
        .min(0)
        .max(1);
    o("keep", keep, "share of masked residues left unchanged").min(0).max(1);
    o("span", span, "mean length of a masked stretch").unit("residues").min(1).max(100);
  }
  void validate(const ConfigErrors& errors) const {
    if (random + keep > 1)
      errors("keep", "must leave something to mask: together with task.mask.random it is more than 1");
  }
};

struct PredictConfig {
  std::vector<std::string> what = {"scores"};
  std::filesystem::path mutations;
  std::string scoring = "masked", mutation_column = "mutation", measured_column;
  int64_t mutation_offset = 0, layer = -1;
  std::string pooling = "mean";
  std::vector<std::string> formats = {"safetensors"};
  int64_t top = 3, maskings = 0;
  bool pictures = true;

  bool wants(std::string_view one) const { return std::ranges::find(what, one) != what.end(); }
  bool has_format(std::string_view one) const { return std::ranges::find(formats, one) != formats.end(); }

  void describe(Options& o) {
    o("what", what,
      "scores: tables of each residue and each substitution, or the labels of task.objective; embeddings: a "
      "vector for each chain or structure; residue_embeddings: one for each residue")
        .choices({"scores", "embeddings", "residue_embeddings"})
        .may_change();
    o("mutations", mutations,
      "table of mutations to score, as A23V or A23V:G45D, with the protein of each in task.data.id_column: "
      "variants.csv has the scores")
        .may_change();
    o("scoring", scoring,
      "of these: masked and wild-type marginals, or pseudo-perplexity, which takes a forward pass for each "
      "residue of each mutant")
        .choices({"masked", "wild-type", "pseudo-perplexity"})
        .may_change();
    o("mutation_column", mutation_column, "column of that table").may_change();
    o("mutation_offset", mutation_offset,
      "added to the numbers of mutations, where they are those of another numbering than the sequence's")
        .min(-1'000'000)
        .max(1'000'000)
        .may_change();
    o("measured_column", measured_column,
      "column of what an experiment measured: Spearman's rank correlation with it is told, and in "
      "spearman.csv")
        .may_change();
    o("layer", layer,
      "of embeddings: 0 is what the first layer gets, 1 what it gives, and so on; -1: the last one, "
      "normalised")
        .min(-1)
        .may_change();
    o("pooling", pooling,
      "of embeddings: the mean over residues, or ESM's <cls> (of a structure the mean over its chains)")
        .choices({"mean", "cls"})
        .may_change();
    o("formats", formats, "of embeddings").choices({"safetensors", "parquet"}).may_change();
    o("top", top, "most likely amino acids listed per residue").min(1).max(20).may_change();
    o("maskings", maskings,
      "forward passes to divide the residues among, at most one per residue; 0: mask as many at a time as in "
      "training")
        .min(0)
        .may_change();
    o("pictures", pictures, "draw each sample's mutation scan").may_change();
  }
};

struct ProteinConfig : proteins::ProteinData {
  double mask_ratio = 0.15;
  std::string kind = "encoder-decoder";
  EncoderDecoderConfig model;
  encoder::EncoderOptions esm2{&encoder::esm2()}, esmc{&encoder::esmc()};
  MaskConfig mask;
  PredictConfig predict;
  std::vector<std::string> freeze;

  void describe(Options& o) {
    describe_paths(o);
    o("mask_ratio", mask_ratio, "share of a sample's residues to mask and predict; at least one residue")
        .min(0.001)
        .below(1);
    o("objective", objective,
      "what is learnt: masked residues; or labels (ESM-2, ESM C), by a head in place of the output head: a "
      "number, a class, or which residues are in contact (CB nearer than 8 angstrom)")
        .choices({residues::kMasked, residues::kRegression, residues::kClassification, residues::kContacts})
        .follows();
    o("freeze", freeze,
      "of ESM-2 and ESM C, parameters that are not trained, as patterns of names: [\"esm.*\"] trains the "
      "head of labels alone");
    o("model", kind, "an encoder-decoder that sees the structure, or ESM-2 or ESM C, which see the sequence")
        .choices({"encoder-decoder", "esm2", "esmc"})
        .of_model();
    o("hidden_dim", model.hidden_dim, "width of the model").min(1).max(encoder::kMostWidth).of_model();
    o("num_encoder_layers", model.num_encoder_layers, "layers over the unmasked residues")
        .min(1)
        .max(encoder::kMostLayers)
        .of_model();
    o("num_decoder_layers", model.num_decoder_layers, "layers over all residues")
        .min(1)
        .max(encoder::kMostLayers)
        .of_model();
    o("num_heads", model.num_heads, "attention heads").min(1).of_model();
    o("feed_forward_dim", model.feed_forward_dim, "width of the feed-forward layers; 0: 4 x hidden_dim")
        .min(0)
        .max(encoder::kMostWidth)
        .of_model();
    o("pair_dim", model.pair_dim, "width of the networks that turn pairs of residues into attention")
        .min(1)
        .max(encoder::kMostWidth)
        .of_model();
    o("distogram", model.distogram,
      "weight of the distance loss; above 0, coordinates of masked residues are hidden; 0 shows them")
        .min(0);
    o("dropout", model.dropout, "before each residual addition").min(0).below(1);
    o("attention_dropout", model.attention_dropout, "of attention weights").min(0).below(1);
    o.group("esm2", esm2);
    o.group("esmc", esmc);
    o.group("data", data);
    o.group("split", split);
    o.group("mask", mask);
    o.group("predict", predict);
    o.group("label", label);
  }
  void validate(const ConfigErrors& errors) const {
    if (errors.trains() && path().empty())
      errors("pdb_path", "must be given, to learn from: a folder of structures, or task.sequences a file");
    if (errors.trains())
      for (const auto& [key, named] :
           {std::pair(path_key(), path()), {"test_path", test_path}, {"split.list", split.list}})
        if (const std::string problem = proteins::problem_of(named); !problem.empty()) errors(key, problem);
    if (model.hidden_dim % model.num_heads != 0)
      errors("num_heads", "must divide task.hidden_dim (" + std::to_string(model.hidden_dim) + ")");
    if (has_sequences() && !pdb_path.empty())
      errors("sequences", "task.pdb_path is there, too: leave one of them out");
    if (has_sequences() && sees_structure())
      errors("sequences", "have no structure, which task.model = \"" + kind +
                              "\" needs: set task.model = \"esm2\" or \"esmc\"");
    for (const char* key : {"data.unit", "data.crop", "data.max_file_mb"})
      if (has_sequences() && errors.is_set(key))
        errors(key, "is of use with structures alone (task.pdb_path): leave it out");
    for (const char* key :
         {"hidden_dim", "num_encoder_layers", "num_decoder_layers", "num_heads", "feed_forward_dim",
          "pair_dim", "distogram", "dropout", "attention_dropout", "data.noise"})
      if (!sees_structure() && errors.is_set(key))
        errors(key, "is of no use with task.model = \"" + kind + "\": leave it out; the options of " +
                        (kind == "esm2" ? "ESM-2" : "ESM C") + " are in task." + kind);
    for (const encoder::EncoderOptions* encoder : {&esm2, &esmc})
      if (kind != encoder->row->name) check_unused(errors, *encoder);
    if (sees_structure() && errors.is_set("freeze"))
      errors("freeze", "is of use with task.model = \"esm2\" or \"esmc\" alone: leave it out");
    validate_labels(errors);
  }
  void validate_labels(const ConfigErrors& errors) const;

  bool sees_structure() const { return kind == "encoder-decoder"; }
  // Whether masked residues lose their coordinates, too.
  bool hides() const { return model.distogram > 0; }
  // The options of the model that sees the sequence alone.
  const encoder::EncoderOptions& sequence_model() const { return kind == esm2.row->name ? esm2 : esmc; }

  // Tells what the folder of an ESM-2, an ESM C, or of a model that this task exported, says.
  static void read_model(const ProteinConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);

 private:
  // Refuses options of a model of another kind.
  static void check_unused(const ConfigErrors& errors, const encoder::EncoderOptions& model) {
    const std::string table = model.row->name;
    const auto check = [&](const char* key) {
      if (errors.is_set(table + "." + key))
        errors(table + "." + key, "is of no use without task.model = \"" + table + "\"");
    };
    for (const auto& field : model.row->fields)
      if (field.help != nullptr) check(field.name);
    for (const char* key : {"lora.rank", "lora.init_from"}) check(key);
  }
};

}  // namespace pipeline::tasks::protein
