// The options of the protein task.
#pragma once

#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "plugins/tasks/protein/esm2/esm2_config.hpp"
#include "plugins/tasks/protein/model/encoder_decoder_config.hpp"
#include "plugins/tasks/protein/task/masking.hpp"

namespace pipeline::protein {

struct DataConfig {
  std::string unit = "chain", crop = "contiguous";
  int64_t min_residues = 20, max_residues = 512, max_file_mb = 256;
  double noise = 0, max_unusable = 0.5;

  void describe(Options& o) {
    o("unit", unit, "what a sample is: a chain, or all chains of a structure")
        .choices({"chain", "structure"});
    o("min_residues", min_residues, "samples with fewer known residues are left out").unit("residues").min(1);
    o("max_residues", max_residues,
      "longer samples are cropped in training, and looked at piece by piece otherwise")
        .unit("residues")
        .min(16);
    o("crop", crop,
      "what training keeps of a longer sample: residues that follow each other, or those nearest to one of "
      "them in space")
        .choices({"contiguous", "spatial"});
    o("noise", noise, "standard deviation of what is added to each coordinate in training")
        .unit("angstrom")
        .min(0);
    o("max_file_mb", max_file_mb, "files that are larger once unpacked are unusable")
        .unit("MB")
        .min(1)
        .may_change();
    o("max_unusable", max_unusable, "the run stops if a larger share of the files cannot be used")
        .min(0)
        .max(1)
        .may_change();
  }
};

struct SplitConfig {
  int64_t folds = 10, fold = 0, exact_up_to = 3000;
  double identity = 0.3, coverage = 0.5;

  void describe(Options& o) {
    o("folds", folds, "parts that the clusters of similar sequences are dealt out to").min(3);
    o("fold", fold,
      "the part that is held out as the test split; the one after it is the validation split, the others are "
      "learnt from")
        .min(0);
    o("identity", identity, "sequences belong together from this share of identical residues on")
        .min(0)
        .max(1);
    o("coverage", coverage, "and from this share of the shorter one on that is aligned").min(0).max(1);
    o("exact_up_to", exact_up_to,
      "with more distinct sequences only pairs that share seeds are aligned: relatives below 40% identity "
      "may be missed, but not between the "
      "parts unless the log says so")
        .unit("sequences")
        .min(0);
  }
  void validate(const ConfigErrors& errors) const {
    if (fold >= folds) errors("fold", "must be below task.split.folds (" + std::to_string(folds) + ")");
  }
};

struct MaskConfig : MaskingOptions {  // its ratio is ProteinConfig::mask_ratio
  void describe(Options& o) {
    o("random", random, "share of the masked residues that training shows as a random amino acid instead")
        .min(0)
        .max(1);
    o("keep", keep, "share of them that it shows as they are").min(0).max(1);
    o("span", span, "mean length of the stretches that are masked together").unit("residues").min(1).max(100);
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
    o("top", top, "likeliest amino acids listed for each residue").min(1).max(20).may_change();
    o("maskings", maskings,
      "forward passes that the residues are divided among, at most one for each; 0 masks as many at a time "
      "as training does")
        .min(0)
        .may_change();
    o("pictures", pictures, "draw each sample's mutation scan").may_change();
  }
};

struct Esm2Options {
  Esm2Config model;

  void describe(Options& o) {
    o("num_layers", model.num_layers, "layers; 6 of the 8M model, 12 of 35M, 30 of 150M, 33 of 650M")
        .min(1)
        .max(kMostLayers);
    o("hidden_dim", model.hidden_dim, "width; 320, 480, 640, 1280").min(2).max(kMostWidth);
    o("num_heads", model.num_heads, "attention heads; 20 of all four").min(1);
    o("intermediate_dim", model.intermediate, "width of the feed-forward parts; 0 is 4 hidden_dim")
        .min(0)
        .max(kMostWidth);
    o("layer_norm_epsilon", model.layer_norm_epsilon,
      "added to the variance in layer norms; 1e-5 of all four")
        .above(0);
    o("token_dropout", model.token_dropout,
      "zero the embeddings of masked residues and rescale the others, as ESM-2 does");
    o("hidden_dropout", model.hidden_dropout, "before each residual addition").min(0).below(1);
    o("attention_dropout", model.attention_dropout, "of attention weights").min(0).below(1);
  }
  void validate(const ConfigErrors& errors) const {
    if (model.hidden_dim % (2 * model.num_heads) != 0)
      errors("num_heads", "must divide task.esm2.hidden_dim (" + std::to_string(model.hidden_dim) +
                              ") into heads of an even width");
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

  void describe(Options& o) {
    o("pdb_path", pdb_path,
      "folder with structures (PDB, mmCIF, also gzipped, also in folders inside), or one file")
        .required();
    o("test_path", test_path,
      "the same, to be evaluated or predicted as the test split in place of the part of pdb_path that is "
      "held out; training does not look at it")
        .may_change();
    o("cache_dir", cache_dir,
      "where parsed structures are kept; may be pdb_path; the run's cache folder if empty")
        .may_change();
    o("mask_ratio", mask_ratio, "share of a sample's residues that are hidden and predicted; one at least")
        .min(0.001)
        .below(1);
    o("model", kind,
      "what predicts: an encoder-decoder that sees the structure, or ESM-2, which sees the sequence")
        .choices({"encoder-decoder", "esm2"});
    o("hidden_dim", model.hidden_dim, "width of the model").min(1).max(kMostWidth);
    o("num_encoder_layers", model.num_encoder_layers, "layers over the residues that are not masked")
        .min(1)
        .max(kMostLayers);
    o("num_decoder_layers", model.num_decoder_layers, "layers over all residues").min(1).max(kMostLayers);
    o("num_heads", model.num_heads, "attention heads").min(1);
    o("feed_forward_dim", model.feed_forward_dim, "width of the feed-forward parts; 0 is 4 hidden_dim")
        .min(0)
        .max(kMostWidth);
    o("pair_dim", model.pair_dim, "width of the networks that turn pairs of residues into attention")
        .min(1)
        .max(kMostWidth);
    o("distogram", model.distogram,
      "weight of predicting the masked residues' distances, too: then their coordinates are hidden; 0 gives "
      "them")
        .min(0);
    o("dropout", model.dropout, "before each residual addition").min(0).below(1);
    o("attention_dropout", model.attention_dropout, "of attention weights").min(0).below(1);
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
    for (const char* key :
         {"esm2.num_layers", "esm2.hidden_dim", "esm2.num_heads", "esm2.intermediate_dim",
          "esm2.layer_norm_epsilon", "esm2.token_dropout", "esm2.hidden_dropout", "esm2.attention_dropout"})
      if (!is_esm2 && errors.is_set(key)) errors(key, "is of no use without task.model = \"esm2\"");
  }
};

}  // namespace pipeline::protein
