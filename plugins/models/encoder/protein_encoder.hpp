#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include "adapters/lora_options.hpp"
#include "plugins/models/encoder/encoder.hpp"
#include "plugins/models/encoder/protein_folder.hpp"
#include "plugins/models/encoder/sequences.hpp"
#include "plugins/models/encoder/token_head.hpp"
#include "plugins/models/protein/label_head.hpp"
#include "plugins/models/protein/protein_model.hpp"

namespace pipeline::encoder {

// An ESM-2 or ESM C for one device: an encoder of the amino acids alone, without structure, with rotary
// positions. Unit 0 is what both ends use: the word embeddings, the last norm and the output head. Units 1 to
// num_hidden_layers are the layers. With LoRA, its matrices alone are trained, and what the options
// name beside them. With a head for labels (Config::label) it takes the place of the output head.
class ProteinEncoder : public protein::ProteinModel {
 public:
  // Throws an Error for a configuration that cannot be.
  // rule: of parameters, beside those of LoRA; see ParameterRegistry.
  ProteinEncoder(const Architecture& row, const Config& config, const adapters::LoraOptions& lora = {},
                 const ParameterRegistry::Rule& rule = nullptr);
  ProteinEncoder(const ProteinEncoder&) = delete;
  ProteinEncoder& operator=(const ProteinEncoder&) = delete;

  const Config& config() const { return config_; }

  LossSum loss(const protein::PackedProteins& batch, const ForwardPass& pass) const override;
  protein::Outputs outputs(const protein::PackedProteins& batch, const ForwardPass& pass) const override;
  // Logits of all tokens, 33 of ESM-2, at target_rows: (T, tokens) fp32. Not differentiable.
  at::Tensor logits(const protein::PackedProteins& batch, const ForwardPass& pass) const;
  at::Tensor labels(const protein::PackedProteins& batch, const ForwardPass& pass) const override;
  protein::Embeddings embeddings(const protein::PackedProteins& batch, const ForwardPass& pass,
                                 int64_t layer) const override;
  int64_t layers() const override { return config_.num_hidden_layers; }
  int64_t width() const override { return config_.hidden_size; }
  double flops(const protein::PackedProteins& batch) const override;

  void import_folder(const std::filesystem::path& folder) override;
  void export_folder(const std::filesystem::path& folder) const override;

  // The extras as text; there are none before import_folder().
  std::string extra_state() const override { return extras_.pack(row_, config_); }
  void set_extra_state(std::string_view state) override;

 private:
  transformer::LayerPass layer_pass(const Sequences& sequences) const;
  at::Tensor embedded(const Sequences& sequences, const ForwardPass& pass) const;
  // The last layer's output at the target rows, for labels of chains at <cls>: (T, C).
  at::Tensor body(const protein::PackedProteins& batch, const ForwardPass& pass) const;
  // Calls `then` with what the label head gives for a batch, within unit 0.
  at::Tensor with_label_outputs(const protein::PackedProteins& batch, const ForwardPass& pass,
                                const std::function<at::Tensor(const at::Tensor&)>& then) const;
  void start_from_adapter();
  void set_extras(Extras extras);

  const Architecture& row_;
  Config config_;
  adapters::LoraOptions lora_;
  std::optional<Encoder> encoder_;
  transformer::Norm last_norm_;
  TokenHead head_;
  std::optional<protein::LabelHead> label_head_;  // in place of this head: for labels
  at::Tensor frequencies_;                        // of the rotary positions
  Extras extras_;
};

// The options of a protein encoder in a task, [task.esm2] and [task.esmc], and what of them follows from a
// folder.
struct EncoderOptions {
  const Architecture* row;
  Config model = row->defaults;
  adapters::LoraOptions lora = {};

  void describe(Options& o) {
    o.group("lora", lora);
    hugging_face::describe_fields(o, row->fields, model);
  }
  void validate(const ConfigErrors& errors) const {
    if (model.hidden_size % (2 * model.num_attention_heads) != 0)
      errors("num_heads", concat("must divide task.", row->name, ".hidden_dim (", model.hidden_size,
                                 ") into heads of an even width"));
    if (const auto problem = adapters::chosen(lora, row->lora_targets(model)).problem; !problem.empty())
      errors("lora.targets", problem);
  }

  // Says of these options what `theirs` has, of the folder `base`.
  void tell(const ModelOptions& say, const Config& theirs, const std::filesystem::path& base) const {
    const std::string table = concat(row->name, ".");
    const hugging_face::FolderOptions folder(say, table, base / "config.json");
    hugging_face::tell_fields(folder, row->fields, theirs, model);
    adapters::tell_adapter(say, table + "lora.", adapted_model(*row, theirs), lora, base.string());
  }
};

}  // namespace pipeline::encoder
