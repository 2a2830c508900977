// What options of a model say together, and what follows from its folder.
#include "plugins/tasks/protein/config.hpp"
#include "heads/label_folder.hpp"
#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/models/protein/encoder_decoder.hpp"
#include "plugins/models/protein/label_head.hpp"

namespace pipeline::tasks::protein {

using pipeline::protein::LabelForm;

void ProteinConfig::validate_labels(const ConfigErrors& errors) const {
  const auto refuse = [&](std::initializer_list<const char*> keys, const std::string& problem) {
    for (const char* const key : keys)
      if (errors.is_set(key)) errors(key, problem);
  };
  if (objective == residues::kMasked)
    return refuse(
        {"label.per", "label.source", "label.column", "label.missing", "label.classes"},
        "is of no use with task.objective = \"masked\": set regression, classification or contacts");
  if (sees_structure())
    errors("objective", "labels are predicted by ESM-2 and ESM C: set task.model = \"esm2\" or \"esmc\"");
  refuse({"mask_ratio", "mask.random", "mask.keep", "mask.span", "predict.mutations", "predict.maskings"},
         "is of use with task.objective = \"masked\" alone: leave it out");
  if (data.crop == "spatial")
    errors("data.crop", "is of use with task.objective = \"masked\" alone: labels need \"contiguous\"");
  if (data.unit != "chain") errors("data.unit", "labels are those of chains: set it to \"chain\"");
  if (objective == residues::kContacts)
    return refuse({"label.per", "label.source", "label.column", "label.classes"},
                  "is of no use with task.objective = \"contacts\", which are found in structures");
  if (objective == residues::kRegression)
    refuse({"label.classes"}, "is of no use with task.objective = \"regression\"");
  const bool is_classes = objective == residues::kClassification;
  for (const auto& [key, name] : {std::pair("sequence_column", data.sequence_column),
                                  {"id_column", data.id_column},
                                  {"split_column", data.split_column},
                                  {"cluster_column", data.cluster_column}})
    if (!label.is_from_backbone() && label.column == name)
      errors("label.column", concat("is the column of task.data.", key, ": labels need one of their own"));
  if (label.is_from_backbone() && (!is_classes || !label.is_per_residue()))
    errors("label.source",
           concat("= \"", label.source,
                  "\" needs task.objective = \"classification\" and task.label.per = \"residue\""));
  if (!label.is_from_backbone() && !pdb_path.empty())
    errors("label.source",
           "= \"column\": structures (task.pdb_path) have no columns: name a table as task.sequences, or set "
           "secondary_structure");
}

void ProteinConfig::read_model(const ProteinConfig& config, const std::filesystem::path& init_from,
                               const ModelOptions& say) {
  if (init_from.empty()) return;
  const std::filesystem::path path = init_from / "config.json";
  const auto tell = [&](const std::string& key, const auto& value) { say(key, value, path); };
  const auto tell_label = [&](const std::optional<LabelForm>& form) {
    if (!form) return;
    tell("objective", pipeline::protein::objective_of(form));
    if (form->of != LabelForm::Of::kPairs) tell("label.per", pipeline::protein::per_of(*form));
    if (!form->classes.empty()) tell("label.classes", form->classes);
  };
  const hugging_face::ConfigFile file(path.string());
  const std::string type = file.type({"esm", "esmc", pipeline::protein::kEncoderDecoderType});
  hugging_face::check_weights(init_from.string());
  for (const encoder::EncoderOptions* model : {&config.esm2, &config.esmc}) {
    if (type != model->row->type) continue;
    const encoder::Config theirs = encoder::read_config(*model->row, path.string());
    tell("model", std::string(model->row->name));
    tell_label(theirs.label ? theirs.label
                            : heads::read_adapter_label(model->lora.init_from.string(), model->row->classes));
    return model->tell(say, theirs, init_from);
  }
  tell("model", std::string("encoder-decoder"));
  EncoderDecoderConfig theirs;
  for (const auto& [key, value] : {std::pair("hidden_dim", &theirs.hidden_dim),
                                   {"num_encoder_layers", &theirs.num_encoder_layers},
                                   {"num_decoder_layers", &theirs.num_decoder_layers},
                                   {"num_heads", &theirs.num_heads},
                                   {"pair_dim", &theirs.pair_dim}}) {
    file.read(key, *value);
    tell(key, *value);
  }
  file.read("feed_forward_dim", theirs.feed_forward_dim);
  const auto inner = [&](int64_t set) { return set > 0 ? set : 4 * theirs.hidden_dim; };
  const bool is_same = inner(config.model.feed_forward_dim) == inner(theirs.feed_forward_dim);
  tell("feed_forward_dim",
       say.is_set("feed_forward_dim") && is_same ? config.model.feed_forward_dim : theirs.feed_forward_dim);
}

}  // namespace pipeline::tasks::protein
