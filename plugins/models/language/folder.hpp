// Hugging Face's folders of language models: config.json and model.safetensors, sharded or not, in fp32,
// fp16, bf16 or fp64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/lora.hpp"
#include "adapters/lora_options.hpp"
#include "adapters/peft_folder.hpp"
#include "hugging_face/config_file.hpp"
#include "hugging_face/export_form.hpp"
#include "hugging_face/token_ids.hpp"
#include "hugging_face/weights.hpp"
#include "language/language_model.hpp"

namespace pipeline::language {

inline constexpr const char* kHead = "lm_head.weight";

// A model's place in the folder of a larger one.
struct FolderPart {
  std::string config;  // the member of config.json
  // The name that a tensor has in a folder of its own; empty: it is another part's.
  std::function<std::string(const std::string& name)> name;
};

// The heads with which a folder is of use; without any of them, too.
enum class Heads {
  kWords,   // a language model's
  kLabels,  // that, or one for labels
  kNone,    // any: nobody asks for it
};
// The configuration in config.json or an object in it. Throws an Error that names file, key and value where
// the model is not one that we compute, or has another head.
Config read_config(const hugging_face::ConfigFile& file, Heads heads = Heads::kWords);
nlohmann::json config_json(const Config& config);
// What a task's option `objective` calls such labels.
std::string objective_of(const heads::LabelForm& form);

// Adds what differs, but for the size of the vocabulary.
void compare(const Config& ours, const Config& theirs, hugging_face::Differences& differences);

// The folder's tensors for a parameter of ours, whose name begins with `prefix`. `more_tokens`: how many the
// folder's vocabulary has behind ours; below 0: ours behind the folder's.
std::vector<hugging_face::Piece> pieces(const Parameter& parameter, const Config& config,
                                        const std::string& prefix, int64_t more_tokens = 0);

// The model's parameters start as those of the folder, whose configuration is given back. Throws unless the
// folder holds this model; one error for all values that differ, one for all tensors that are missing,
// unexpected or of another shape. Its vocabulary may be larger than ours, or smaller: the rows of tokens that
// it does not have start as the mean of the others.
Config import_model(const std::string& folder, LanguageModel& model, const FolderPart& part = {});

// What is kept of the folder's weights for an export; see hugging_face::kept_weights().
std::string kept_weights(const std::string& folder, const LanguageModel& model, const FolderPart& part = {});

// Writes config.json and model.safetensors, which transformers loads. The folder must exist. came: texts of
// the folder that the model came from, if it did: what another model would not say otherwise stays as it is
// there, and so do the names and types of the weights, unless one is float16 and training has led a value
// beyond it: then it is float32, in both files. Gives back lines for the log.
std::vector<std::string> export_model(const std::string& folder, const LanguageModel& model,
                                      const hugging_face::FolderTexts& came = {});

// The config.json of this model where it came with this one, or null; but for the tokens' numbers, which are
// hugging_face::write_token_ids()'s.
nlohmann::ordered_json kept_config(const Config& config, nlohmann::ordered_json came);

// A note for the log on what an import has made of the `count` tokens that ours has behind the folder's, or
// below 0 of the folder's rows that have no token here. Empty: there are none.
std::string note_of_vocabulary(const std::string& folder, int64_t vocabulary, int64_t count,
                               bool are_kept = true);

std::vector<adapters::LoraTarget> lora_targets(const Config& config, uint32_t first_unit = 0);

// prefix: of its parameters.
adapters::AdaptedModel adapted_model(const Config& config, const std::string& prefix = "");

// A model of which LoRA alone is trained, where there is any, and what the options name beside
// them; they begin with the adapter that the options name.
std::shared_ptr<LanguageModel> make_adapted(const Config& config, const adapters::LoraOptions& lora);
// A model that is not trained, in the registry of another one, behind its units; its parameters' names begin
// with `prefix`. is_droppable: a later stage, or a prediction, may do without it.
std::unique_ptr<LanguageModel> make_frozen(LanguageModel& beside, const Config& config,
                                           const std::string& prefix, bool is_droppable);
// Starts from the adapter again after an import, which is of the whole model.
void start_from_adapter(LanguageModel& model, const adapters::LoraOptions& lora);

// A warning that an import has made rows for `count` tokens, which LoRA does not train. Empty: it
// has not, or they are trained.
std::string warning_of_new_tokens(const LanguageModel& model, int64_t count);

// Writes a PEFT adapter or the whole model's folder, as the options say, but for the tokenizer's files; see
// language::export_model(). Gives back lines for the log.
std::vector<std::string> export_model(const std::string& folder, const LanguageModel& model,
                                      const adapters::LoraOptions& lora,
                                      const hugging_face::FolderTexts& came = {});
// export_model() for a task, with the numbers of its tokens; `log` is told what there is to say.
void export_model(const std::filesystem::path& folder, const LanguageModel& model,
                  const adapters::LoraOptions& lora, const hugging_face::FolderTexts& came,
                  const hugging_face::OwnTokens& own, const std::function<void(const std::string&)>& log);

}  // namespace pipeline::language
