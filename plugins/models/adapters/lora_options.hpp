// The options of LoRA in a task, [task.language.lora], and what of them follows from a folder.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "adapters/peft_folder.hpp"

namespace pipeline::adapters {

struct LoraOptions : LoraConfig {
  std::filesystem::path init_from;
  std::string base_model;
  bool merge = false;

  bool operator==(const LoraOptions&) const = default;
  // Whether an export is the LoRA matrices alone. Without a folder of the base model it is the whole model.
  bool exports_adapter() const { return rank > 0 && !merge && !base_model.empty(); }
  // A note for the log on an export that is not what was asked for; empty: it is.
  std::string export_note() const {
    if (rank == 0 || merge || exports_adapter()) return {};
    return "LoRA is merged into the model, because the folder of the base model is not "
           "known: for a PEFT adapter, name it as lora.base_model";
  }
  // Where an adapter is named, LoRA starts as it is there, and whatever it has besides: after the model was
  // declared, and again after an import, which is of the whole model.
  void start(ParameterRegistry& parameters, const AdaptedModel& model) const;
  void describe(Options& o) {
    o("rank", rank, "train LoRA matrices of this rank instead of the model; 0: none")
        .min(0)
        .max(1 << 14)
        .follows();
    o("alpha", alpha, "LoRA matrices are scaled by alpha / rank").above(0).follows();
    o("use_rslora", use_rslora, "they are scaled by alpha / sqrt(rank) instead").follows();
    o("rank_pattern", rank_pattern,
      "another rank for some: [\"layers.0.*q_proj = 8\"], regular expressions as PEFT has them")
        .follows();
    o("alpha_pattern", alpha_pattern, "another alpha for some, in the same form").follows();
    o("dropout", dropout, "dropout of the input of LoRA matrices").min(0).below(1).follows();
    o("targets", targets,
      "the matrices, as names or patterns of their paths: [\"q_proj\", \"layers.0.mlp.*\"], \"all-linear\" "
      "for "
      "all; "
      "empty: those of queries and values, q_proj and v_proj, query and value, q_lin and v_lin, or what has "
      "them with the keys, c_attn or Wqkv")
        .follows();
    o("modules_to_save", modules_to_save,
      "what is trained as a whole beside them, in the same form: [\"embed_tokens\", \"lm_head\"]")
        .follows();
    o("init_from", init_from, "folder of a PEFT adapter to start from; empty: LoRA starts at zero");
    o("base_model", base_model,
      "export: the base model's name in adapter_config.json; empty: LoRA is merged into the model")
        .follows()
        .may_change();
    o("merge", merge, "export: the whole model with LoRA merged into it, instead of a PEFT adapter")
        .may_change();
  }
  // Without LoRA the whole model is trained, which is not what one who sets these wants.
  void validate(const ConfigErrors& errors) const {
    if (rank > 0 || !init_from.empty()) return;
    const LoraOptions plain;
    for (const auto& [key, is_plain] : {std::pair("alpha", alpha == plain.alpha),
                                        {"use_rslora", use_rslora == plain.use_rslora},
                                        {"rank_pattern", rank_pattern == plain.rank_pattern},
                                        {"alpha_pattern", alpha_pattern == plain.alpha_pattern},
                                        {"dropout", dropout == plain.dropout},
                                        {"targets", targets == plain.targets},
                                        {"modules_to_save", modules_to_save == plain.modules_to_save}})
      if (!is_plain) errors(key, "is of no use without LoRA: set rank, too, or leave it out");
  }
};

// Says of the options below `table` ("language.lora.") what the adapter has that init_from names, and that
// the base model is that of the folder `base`.
void tell_adapter(const ModelOptions& say, const std::string& table, const AdaptedModel& model,
                  const LoraOptions& run, const std::string& base);

// task.freeze: which parameters are not trained, by patterns of their names.
class Freeze {
 public:
  // Patterns of fnmatch: "vision_model.*", "*.bias".
  explicit Freeze(const std::vector<std::string>& patterns)
      : patterns_(patterns), used_(patterns.size(), false) {}

  // Whether a parameter is frozen. A registry's rule asks it for each.
  bool operator()(const std::string& name);
  // To be asked when all parameters are declared: what is wrong with the option; empty: nothing.
  std::string problem(const ParameterRegistry& parameters) const;

 private:
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
};

}  // namespace pipeline::adapters
