#pragma once

#include <string>

#include "plugins/tasks/protein/esm2/esm2_config.hpp"

namespace pipeline::protein::esm2 {

// Reads a config.json of EsmForMaskedLM. Throws std::runtime_error that names file, key and value where the
// model is not the ESM-2 that we compute: other positions, norms, activation or vocabulary, ESMFold.
Esm2Config read_config(const std::string& path);
std::string format_config(const Esm2Config& config);

// Throws std::runtime_error unless `path` is not there or is the vocab.txt of ESM-2.
void check_vocabulary(const std::string& path);
// Writes vocab.txt, tokenizer_config.json and special_tokens_map.json.
void write_tokenizer(const std::string& folder);

}  // namespace pipeline::protein::esm2
