// The options of a protein encoder in a task, [task.esm2] and [task.esmc], and what of them follows from a
// folder.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <filesystem>

#include "adapters/lora_options.hpp"
#include "plugins/models/encoder/protein_folder.hpp"

namespace pipeline::encoder {

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
    const hugging_face::FolderTeller teller(say, table, base / "config.json");
    hugging_face::tell_fields(teller, row->fields, theirs, model);
    adapters::tell_adapter(say, table + "lora.", adapted_model(*row, theirs), lora, base.string());
  }
};

}  // namespace pipeline::encoder
