// How a task writes conversations: the options of its chat template, and the template.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "language/options.hpp"
#include "plugins/data/messages/conversation_store.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/common/writing.hpp"
#include "plugins/tasks/text/data.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::conversation {

using pipeline::chat::ChatFormat;

// How conversations become tokens.
struct TemplateOptions {
  std::string chat_template = "auto", date = "2024-07-26";
  int64_t max_tokens = 1024;

  void describe(Options& o) {
    o("template", chat_template,
      "what stands around the turns: auto: the model folder's own, else simple; plain, simple, vicuna, "
      "chatml, llama3; or a .jinja file");
    o("max_tokens", max_tokens, "longer conversations are cut at a turn").unit("tokens").min(8).follows();
    o("date", date, "what a template is told that asks for the date (Llama 3's do): year-month-day");
  }
  void validate(const ConfigErrors& errors) const;
  // Of the task: the model has so many positions, and an answer of so many tokens has a question before it.
  void require_room(const ConfigErrors& errors, const language::LanguageOptions& language,
                    int64_t new_tokens) const;
  // Why `name` is no template. Empty: it is one, or a file.
  static std::string problem_of(const std::string& name);
};

// Tells what the folder says that the run starts from; lengths are made to fit into its positions. As
// common::read_language_model().
std::optional<language::Config> read_folder(const TemplateOptions& chat,
                                            const tokenizer::TokenizerOptions& tokenizer,
                                            const language::LanguageOptions& language, int64_t new_tokens,
                                            const std::filesystem::path& init_from, const ModelOptions& say,
                                            language::Heads heads = language::Heads::kWords);

// The template that the options name, or the tokenizer's own. The tokenizer carries it from then on. The log
// has what it makes of answers. [main]
std::unique_ptr<const ChatFormat> open_format(const TemplateOptions& chat, bool is_tokenizer_named,
                                              const Context& context, common::TaskTokenizer& tokenizer,
                                              const ConfigErrors& errors);

// What the conversations for training say, for a tokenizer of `size` tokens. source_of(files): them as they
// are.
tokenizer::TrainingTexts texts_of(
    const text::Corpus& corpus, const sources::SplitOptions& data,
    const std::function<messages::Source(const sources::SourceFiles&)>& source_of, const pl_run_info& run,
    int64_t size, const ConfigErrors& errors);

// The text of a conversation's last question.
const std::string& question_text(const messages::Conversation& conversation);
// The question with what the model reads, and its answer. `most`: bytes of it in the log.
common::Question last_question(const messages::Conversation& conversation, const ChatFormat& format,
                               int64_t max_tokens, int64_t new_tokens, size_t most);

}  // namespace pipeline::tasks::conversation
