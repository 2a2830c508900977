// The tokens that a folder's config.json and generation_config.json name by number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipeline::hugging_face {

// Texts of the folder by the names of their files; others than those two do not matter.
using FolderTexts = std::map<std::string, std::string>;
// The name of kept_weights() (export_form.hpp) among the texts that go from a folder through checkpoints to
// an export.
inline constexpr const char* kWeightsText = "weights.kept";

// What the tokenizer in use says: what begins and ends a text there, and which of a folder's numbers are
// tokens of its own. Other numbers, as where the folder had another tokenizer, are left out of everything.
struct OwnTokens {
  int64_t begin, end;
  std::function<bool(int64_t)> is_own;
};

// The tokens that end a text: `own.end` first, then eos_token_id of either file, a number or, as in Llama 3
// Instruct, a list of them. Throws an Error (PL_ERROR_CONFIG) for anything else.
std::vector<int64_t> end_tokens(const FolderTexts& texts, const OwnTokens& own);

// Lines for the log: numbers of `folder` that are left out.
std::vector<std::string> unknown_tokens(const FolderTexts& texts, const OwnTokens& own,
                                        const std::string& folder);

// The texts without those numbers.
FolderTexts without_unknown(FolderTexts texts, const OwnTokens& own, const std::string& folder);

// After a model was written into `folder`: puts the numbers that `texts` have in place of the model's own
// into its config.json, null as well, and writes generation_config.json as it is in `texts` or, without, with
// the same numbers. `own.end` joins those that end a text, where neither file has it; in
// generation_config.json, which generate() reads, all of end_tokens() do.
void write_token_ids(const std::string& folder, const FolderTexts& texts, const OwnTokens& own);
// The token for padding that its config.json names; nothing: none.
std::optional<int64_t> padding_of(const std::string& folder);
// Makes another one that, there and, as its text, in tokenizer_config.json.
void set_padding(const std::string& folder, int64_t token, const std::string& text);
// From now on the folder's tokenizer says of each token which of two texts it is of.
void set_text_types(const std::string& folder);

}  // namespace pipeline::hugging_face
