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

  void describe(Options& o) {
    o("kind", kind, "architecture").choices({"bert", "distilbert", "roberta", "xlm-roberta"}).of_model();
    hugging_face::describe_fields(o, text_encoder("bert").fields, encoder);
  }
  void validate(const ConfigErrors& errors) const {
    if (encoder.hidden_size % encoder.num_attention_heads != 0)
      errors("num_attention_heads",
             concat("must divide task.", table, ".hidden_size (", encoder.hidden_size, ")"));
    if (kind != "distilbert") return;
    if (const double usual = text_encoder(kind).theirs.layer_norm_eps; encoder.layer_norm_eps != usual)
      errors("layer_norm_eps", concat("of distilbert it is ", usual));
    if (errors.is_set("type_vocab_size")) errors("type_vocab_size", "is none of distilbert's options");
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
  void tell(const ModelOptions& say, const EncoderFolder& theirs, const std::filesystem::path& folder) const {
    const hugging_face::FolderOptions model(say, table + ".", folder / "config.json");
    model("kind", theirs.kind);
    hugging_face::tell_fields(model, text_encoder(theirs.kind).fields, theirs.config, encoder);
  }
};

}  // namespace pipeline::encoder
