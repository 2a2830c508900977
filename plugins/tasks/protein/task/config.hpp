// The options of the protein task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "adapters/lora_options.hpp"
#include "plugins/tasks/protein/esm2/folder.hpp"
#include "plugins/tasks/protein/model/encoder_decoder.hpp"
#include "plugins/tasks/protein/task/masking.hpp"
#include "transformer/cuda/kernels.hpp"

namespace pipeline::protein {

struct DataConfig {
  std::string unit = "chain", crop = "contiguous";
  int64_t min_residues = 20, max_residues = 512, max_file_mb = 256;
  double noise = 0, max_unusable = 0.5;

  void describe(Options& o) {
    o("unit", unit, "a sample: one chain, or all chains of a structure").choices({"chain", "structure"});
    o("min_residues", min_residues, "samples with fewer known residues are skipped").unit("residues").min(1);
    o("max_residues", max_residues, "longer samples are cropped in training, otherwise processed in pieces")
        .unit("residues")
        .min(16);
    o("crop", crop,
      "what training keeps of a longer sample: consecutive residues, or those nearest to one residue in "
      "space")
        .choices({"contiguous", "spatial"});
    o("noise", noise, "standard deviation of the noise on each coordinate in training")
        .unit("angstrom")
        .min(0);
    o("max_file_mb", max_file_mb, "larger files (unpacked size) are unusable").unit("MB").min(1).may_change();
    o("max_unusable", max_unusable, "stop if a larger share of the files is unusable")
        .min(0)
        .max(1)
        .may_change();
  }
};

struct SplitConfig {
  int64_t folds = 10, fold = 0, exact_up_to = 3000;
  double identity = 0.3, coverage = 0.5;

  void describe(Options& o) {
    o("folds", folds, "parts to divide the clusters of similar sequences into").min(3);
    o("fold", fold,
      "part held out as the test split; the next one is the validation split, the rest are for training")
        .min(0);
    o("identity", identity, "minimum share of identical residues in two similar sequences").min(0).max(1);
    o("coverage", coverage, "minimum aligned share of the shorter of two similar sequences").min(0).max(1);
    o("exact_up_to", exact_up_to,
      "with more distinct sequences, align only pairs that share seeds: may miss relatives below 40% "
      "identity within a part, and between parts if the log says so")
        .unit("sequences")
        .min(0);
  }
  void validate(const ConfigErrors& errors) const {
    if (fold >= folds) errors("fold", "must be below task.split.folds (" + std::to_string(folds) + ")");
  }
};

struct MaskConfig : MaskingOptions {  // its ratio is ProteinConfig::mask_ratio
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
  int64_t top = 3, maskings = 0;
  bool pictures = true;

  void describe(Options& o) {
    o("top", top, "most likely amino acids listed per residue").min(1).max(20).may_change();
    o("maskings", maskings,
      "forward passes to divide the residues among, at most one per residue; 0: mask as many at a time as in "
      "training")
        .min(0)
        .may_change();
    o("pictures", pictures, "draw each sample's mutation scan").may_change();
  }
};

struct Esm2Options {
  Esm2Config model;
  adapters::LoraOptions lora;

  void describe(Options& o) {
    o.group("lora", lora);
    o("num_layers", model.num_layers, "layers: 6 (8M model), 12 (35M), 30 (150M), 33 (650M)")
        .min(1)
        .max(kMostLayers)
        .of_model();
    o("hidden_dim", model.hidden_dim, "width: 320, 480, 640, 1280").min(2).max(kMostWidth).of_model();
    o("num_heads", model.num_heads, "attention heads; 20 in all four").min(1).of_model();
    o("intermediate_dim", model.intermediate, "width of the feed-forward layers; 0: 4 x hidden_dim")
        .min(0)
        .max(kMostWidth)
        .of_model();
    o("layer_norm_epsilon", model.layer_norm_epsilon,
      "added to the variance in layer norms; 1e-5 in all four")
        .above(0)
        .of_model();
    o("token_dropout", model.token_dropout,
      "zero the embeddings of masked residues and rescale the others, as ESM-2 does")
        .of_model();
    o("hidden_dropout", model.hidden_dropout, "before each residual addition").min(0).below(1).follows();
    o("attention_dropout", model.attention_dropout, "of attention weights").min(0).below(1).follows();
  }
  void validate(const ConfigErrors& errors) const {
    if (model.hidden_dim % (2 * model.num_heads) != 0)
      errors("num_heads", "must divide task.esm2.hidden_dim (" + std::to_string(model.hidden_dim) +
                              ") into heads of an even width");
    if (const auto problem = adapters::chosen(lora, esm2::adapted_model(model).targets).problem;
        !problem.empty())
      errors("lora.targets", problem);
  }
};

struct ProteinConfig {
  std::filesystem::path pdb_path, cache_dir, test_path;
  double mask_ratio = 0.15;
  std::string kind = "encoder-decoder";
  EncoderDecoderConfig model;
  Esm2Options esm2;
  DataConfig data;
  SplitConfig split;
  MaskConfig mask;
  PredictConfig predict;
  bool cuda_kernels = true;  // without effect

  void describe(Options& o) {
    o("pdb_path", pdb_path,
      "folder of structures (PDB, mmCIF, also gzipped; searched recursively), or one file")
        .required();
    o("test_path", test_path,
      "structures to use as the test split instead of the held-out part of pdb_path; not used in training")
        .may_change();
    o("cache_dir", cache_dir, "folder for parsed structures; may be pdb_path; empty: the run's cache folder")
        .may_change();
    o("mask_ratio", mask_ratio, "share of a sample's residues to mask and predict; at least one residue")
        .min(0.001)
        .below(1);
    o("model", kind, "an encoder-decoder that sees the structure, or ESM-2, which sees the sequence")
        .choices({"encoder-decoder", "esm2"})
        .of_model();
    o("hidden_dim", model.hidden_dim, "width of the model").min(1).max(kMostWidth).of_model();
    o("num_encoder_layers", model.num_encoder_layers, "layers over the unmasked residues")
        .min(1)
        .max(kMostLayers)
        .of_model();
    o("num_decoder_layers", model.num_decoder_layers, "layers over all residues")
        .min(1)
        .max(kMostLayers)
        .of_model();
    o("num_heads", model.num_heads, "attention heads").min(1).of_model();
    o("feed_forward_dim", model.feed_forward_dim, "width of the feed-forward layers; 0: 4 x hidden_dim")
        .min(0)
        .max(kMostWidth)
        .of_model();
    o("pair_dim", model.pair_dim, "width of the networks that turn pairs of residues into attention")
        .min(1)
        .max(kMostWidth)
        .of_model();
    o("distogram", model.distogram,
      "weight of the distance loss; above 0, coordinates of masked residues are hidden; 0 shows them")
        .min(0);
    o("dropout", model.dropout, "before each residual addition").min(0).below(1);
    o("attention_dropout", model.attention_dropout, "of attention weights").min(0).below(1);
    o("cuda_kernels", cuda_kernels, transformer::cuda::kOptionHelp).may_change();
    o.group("esm2", esm2);
    o.group("data", data);
    o.group("split", split);
    o.group("mask", mask);
    o.group("predict", predict);
  }
  void validate(const ConfigErrors& errors) const {
    if (model.hidden_dim % model.num_heads != 0)
      errors("num_heads", "must divide task.hidden_dim (" + std::to_string(model.hidden_dim) + ")");
    const bool is_esm2 = kind == "esm2";
    for (const char* key :
         {"hidden_dim", "num_encoder_layers", "num_decoder_layers", "num_heads", "feed_forward_dim",
          "pair_dim", "distogram", "dropout", "attention_dropout", "data.noise"})
      if (is_esm2 && errors.is_set(key))
        errors(
            key,
            "is of no use with task.model = \"esm2\": leave it out; the options of ESM-2 are in task.esm2");
    for (const char* key : {"esm2.num_layers", "esm2.hidden_dim", "esm2.num_heads", "esm2.intermediate_dim",
                            "esm2.layer_norm_epsilon", "esm2.token_dropout", "esm2.hidden_dropout",
                            "esm2.attention_dropout", "esm2.lora.rank", "esm2.lora.init_from"})
      if (!is_esm2 && errors.is_set(key)) errors(key, "is of no use without task.model = \"esm2\"");
  }

  // What the folder of an ESM-2, or of a model that this task exported, says.
  static void read_model(const ProteinConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);
};

}  // namespace pipeline::protein
