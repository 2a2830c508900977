// Folders of sentence-transformers: a Hugging Face folder of an encoder with modules.json, which names what
// makes vectors of its last layer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hugging_face/token_ids.hpp"
#include "plugins/models/sentence_encoder/sentence_encoder.hpp"

namespace pipeline::sentence_encoder {

struct Folder {
  Config config;                              // with mean pooling where there is no modules.json
  std::filesystem::path modules;              // the folder of modules.json, and of the prompts
  std::filesystem::path encoder, projection;  // folders within it; the latter empty: none
  bool is_encoder_alone = true;               // or a language model: without modules.json
  std::optional<int64_t> max_tokens;          // of a text, if the folder says it
  std::filesystem::path max_tokens_file;      // then: which file
  std::string query_prompt, passage_prompt;   // those named query and document, else the default
};

// Throws an Error that names file, key and value of what we do not compute. adapter: a folder of PEFT's,
// empty for none; what stands behind the encoder is as that says where it has modules.json.
Folder read_folder(const std::filesystem::path& path, const std::filesystem::path& adapter = {});

// From now on the model starts from the folder's weights, but for a language model, which its own functions
// import and write; its projection as a new model's where the folder has the encoder alone. Ours may have
// fewer or more tokens at the end. Gives back what was read.
Folder import_model(const std::filesystem::path& path, SentenceEncoder& model,
                    const std::filesystem::path& adapter = {});

// What is kept of the encoder's weights for an export; see hugging_face::kept_weights().
std::string kept_weights(const Folder& folder, const SentenceEncoder& model);

struct TextRules {
  int64_t max_tokens;
  std::string query_prompt, passage_prompt;
};
// Writes what sentence-transformers and transformers load, but for the tokenizer, and for a language model.
// The folder must exist.
// `came`: see language::export_model(), also for what is given back.
std::vector<std::string> export_model(const std::filesystem::path& path, const SentenceEncoder& model,
                                      const TextRules& rules, const hugging_face::FolderTexts& came = {});

}  // namespace pipeline::sentence_encoder
