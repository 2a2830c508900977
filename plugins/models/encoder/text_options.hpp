#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "plugins/models/encoder/text_folder.hpp"

namespace pipeline::encoder {

// The options of an encoder of texts in a task, [task.model] or so, and what of them follows from a folder.
struct TextEncoderOptions {
  std::string table = "model";  // of the task's: what errors call it
  std::string kind = "bert";
  Config encoder = [] {  // of all kinds, unless a folder says otherwise
    Config config = text_encoder("bert").defaults;
    config.vocab_size = 0;
    return config;
  }();
  adapters::LoraOptions lora;

  void describe(Options& o) {
    o("kind", kind, "architecture").choices({kTextEncoders.begin(), kTextEncoders.end()}).of_model();
    hugging_face::describe_fields(o, text_encoder_fields(), encoder);
    o.group("lora", lora);
  }
  void validate(const ConfigErrors& errors) const {
    if (encoder.hidden_size % encoder.num_attention_heads != 0)
      errors("num_attention_heads",
             concat("must divide task.", table, ".hidden_size (", encoder.hidden_size, ")"));
    const Architecture& row = text_encoder(kind);
    for (const auto& field : text_encoder_fields())
      if (!row.has(field.name) && errors.is_set(field.name))
        errors(field.name, concat("is none of ", kind, "'s options"));
    if (row.has_local_layers && encoder.head_width() % 2 != 0)
      errors("num_attention_heads", concat("gives heads of ", encoder.head_width(),
                                           " channels: rotary positions need an even number"));
    if (row.gate && encoder.hidden_act != "gelu") errors("hidden_act", concat("of ", kind, " it is gelu"));
    if (const std::string problem = adapters::chosen(lora, row.lora_targets(encoder)).problem;
        !problem.empty())
      errors("lora.targets", problem);
  }
  // `key`: of the option that says how many tokens a text may have.
  void require_positions(const ConfigErrors& errors, const char* key, int64_t tokens) const {
    const Architecture& row = text_encoder(kind);
    if (tokens > row.most_tokens(encoder))
      errors(key,
             concat("must be at most ", row.most_tokens(encoder), ", as task.", table,
                    ".max_position_embeddings = ", encoder.max_position_embeddings, " makes it",
                    row.first_position > 0 ? concat(" with the first ", row.first_position, " unused") : ""));
  }
  // The number that the token for padding must have; -1: any.
  int64_t padding() const { return text_encoder(kind).first_position - 1; }
  // The encoder for a tokenizer of so many tokens.
  Config of(int64_t tokens) const {
    Config config = encoder;
    config.vocab_size = std::max(tokens, encoder.vocab_size);
    return config;
  }
  // adapted: the model around it, as PEFT has it.
  void tell(const ModelOptions& say, const EncoderFolder& theirs, const std::filesystem::path& folder,
            const adapters::AdaptedModel& adapted) const {
    const hugging_face::FolderOptions model(say, table + ".", folder / "config.json");
    model("kind", theirs.kind);
    hugging_face::tell_fields(model, text_encoder(theirs.kind).fields, theirs.config, encoder);
    adapters::tell_adapter(say, concat(table, ".lora."), adapted, lora, folder.string());
  }
};

}  // namespace pipeline::encoder
