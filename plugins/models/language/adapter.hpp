// A language model's low-rank additions: which matrices may have them, their options and their folders.
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
#include "hugging_face/token_ids.hpp"
#include "language/language_model.hpp"

namespace pipeline::language {

std::vector<adapters::LoraTarget> lora_targets(const Config& config, uint32_t first_unit = 0);

// prefix: of its parameters.
adapters::AdaptedModel adapted_model(const Config& config, const std::string& prefix = "");

// A model of which the additions alone are trained, where there are any, and what the options name beside
// them; they begin with the adapter that the options name.
std::shared_ptr<LanguageModel> make_adapted(const Config& config, const adapters::LoraOptions& lora);
// Starts from the adapter again after an import, which is of the whole model.
void start_from_adapter(LanguageModel& model, const adapters::LoraOptions& lora);

// A warning that an import has made rows for `count` tokens, which additions alone do not train. Empty: it
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
