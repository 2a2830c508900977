#include "plugins/tasks/conversation/format.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "files/regular_file.hpp"
#include "plugins/tasks/conversation/sequence.hpp"

namespace pipeline::tasks::conversation {

using pipeline::chat::template_names;

namespace {

namespace fs = std::filesystem;

// Noon of a date, in local time.
std::optional<std::time_t> noon_of(const std::string& date) {
  std::tm day{};
  if (const char* end = ::strptime(date.c_str(), "%Y-%m-%d", &day); end == nullptr || *end != '\0')
    return std::nullopt;
  day.tm_hour = 12;
  day.tm_isdst = -1;
  return std::mktime(&day);
}

bool is_template_name(const std::string& name) {
  const std::vector<std::string> known = template_names();
  return std::ranges::find(known, name) != known.end();
}

}  // namespace

void TemplateOptions::validate(const ConfigErrors& errors) const {
  if (!noon_of(date)) errors("date", "must be a date such as 2024-07-26");
}

void TemplateOptions::require_room(const ConfigErrors& errors, const language::LanguageOptions& language,
                                   int64_t new_tokens) const {
  language.require_positions(errors, "chat.max_tokens", max_tokens);
  if (new_tokens >= max_tokens)
    errors("generate.max_tokens", concat("must be less than task.chat.max_tokens (", max_tokens,
                                         "), in which question and answer have to fit"));
}

std::string TemplateOptions::problem_of(const std::string& name) {
  if (name == "auto" || is_template_name(name)) return "";
  const std::string problem = files::path_problem(name, "file");
  return problem.empty() ? ""
                         : problem + "; a template is auto, plain, simple, vicuna, chatml, llama3, or a file";
}

std::unique_ptr<const ChatFormat> open_format(const TemplateOptions& chat, bool is_tokenizer_named,
                                              const Context& context, common::TaskTokenizer& tokenizer,
                                              const ConfigErrors& errors) {
  tokenizer.require_end_of_text("which an answer ends with");
  auto [source, file] = pipeline::chat::template_of(tokenizer->files());
  const std::string& named = chat.chat_template;
  // A model is used with the template that it learnt with, which came with its tokenizer.
  const bool has_own = tokenizer.is_kept() && !source.empty();
  const bool is_gone = has_own && named.ends_with(".jinja") && !fs::exists(named);
  if (is_gone)
    context.info("chat       ", named, " is not there: using the template that came with the weights");
  const std::string wanted =
      is_gone || (has_own && context.run().purpose != PL_PURPOSE_TRAIN) ? "auto" : named;
  if (wanted != "auto" || source.empty()) {
    const std::string name = wanted == "auto" ? "simple" : wanted;
    if (is_template_name(name)) {
      std::tie(source, file) = std::pair(pipeline::chat::named_template(name, *tokenizer),
                                         "task.chat.template = \"" + name + "\"");
      if (wanted == "auto" && is_tokenizer_named)
        context.info(
            "chat       the tokenizer has no chat template: the turns are written as "
            "task.chat.template = \"simple\" does");
    } else {
      if (const std::string problem = TemplateOptions::problem_of(wanted); !problem.empty())
        errors("chat.template", problem);
      std::ifstream stream(wanted, std::ios::binary);
      source.assign(std::istreambuf_iterator<char>(stream), {});
      file = wanted;
    }
    tokenizer.replace(pipeline::chat::with_template(tokenizer.shared(), source));
  }
  auto format = std::make_unique<const ChatFormat>(source, file, tokenizer.shared(), *noon_of(chat.date));
  if (format->tells_date())
    context.info("chat       the template writes the date: it is told ", chat.date, ", task.chat.date");
  if (!format->learns_end())
    context.warn(file,
                 ": its {% generation %} leaves out the token that ends an answer, so the model does not "
                 "learn to stop");
  if (!format->ends_answers())
    context.warn(file,
                 ": no special token ends an answer: only the last one of a conversation is followed by the "
                 "end of text, so the model learns to stop there alone");
  return format;
}

std::optional<language::Config> read_folder(const TemplateOptions& chat,
                                            const tokenizer::TokenizerOptions& tokenizer,
                                            const language::LanguageOptions& language, int64_t new_tokens,
                                            const std::filesystem::path& init_from, const ModelOptions& say,
                                            language::Heads heads) {
  if (const std::string problem = TemplateOptions::problem_of(chat.chat_template); !problem.empty())
    say.problem("chat.template", problem);
  const auto theirs = common::read_language_model(tokenizer, language, init_from, say, heads);
  if (!theirs) return theirs;
  const std::filesystem::path file = init_from / "config.json";
  int64_t tokens = chat.max_tokens;
  if (!say.is_set("chat.max_tokens") && tokens > theirs->max_position_embeddings)
    say("chat.max_tokens", tokens = theirs->max_position_embeddings, file);
  if (new_tokens >= tokens) say("generate.max_tokens", std::max<int64_t>(tokens / 4, 1), file);
  return theirs;
}

tokenizer::TrainingTexts texts_of(
    const text::Corpus& corpus, const sources::SplitOptions& data,
    const std::function<messages::Source(const sources::SourceFiles&)>& source_of, const pl_run_info& run,
    int64_t size, const ConfigErrors& errors) {
  const files::SplitPart part = data.of(Split::kTrain).part;
  auto stores = std::make_shared<std::vector<messages::ConversationStore>>();
  for (const sources::SourceFiles& files : corpus.sources_of(Split::kTrain))
    stores->emplace_back(std::string(view(run.cache_dir)), source_of(files),
                         corpus.hooks("reading " + files.name()), part);
  std::vector<const messages::ConversationStore*> all;
  for (const messages::ConversationStore& store : *stores)
    if (store.size() > 0) all.push_back(&store);
  if (all.empty()) errors("data.train", "is needed to train a tokenizer on");
  tokenizer::TrainingTexts texts =
      common::training_texts(messages::texts_of(std::move(all)), size, "conversations");
  texts.each = [stores, each = std::move(texts.each)](const auto& text, const auto& read) {
    each(text, read);
  };
  return texts;
}

const std::string& question_text(const messages::Conversation& conversation) {
  const size_t turn = answered_turn(conversation);
  return conversation.turns.at(turn > 0 ? turn - 1 : 0).text;
}

common::Question last_question(const messages::Conversation& conversation, const ChatFormat& format,
                               int64_t max_tokens, int64_t new_tokens, size_t most) {
  const auto& turns = conversation.turns;
  const size_t turn = answered_turn(conversation);
  common::Question question{
      .name = conversation.id,
      .text = question_text(conversation),
      .shown = {},
      .truth = turn < turns.size() && turns[turn].is_assistant() ? turns[turn].text : "",
      .prompt = make_prompt(conversation, turn, format, max_tokens, new_tokens)};
  question.shown = common::one_line(question.text, most);
  if (question.prompt.empty())
    fail_with(PL_ERROR_CONFIG, "conversation ", common::one_line(conversation.id, most),
              ": its last question does not fit beside an answer of ", new_tokens,
              " tokens: raise task.chat.max_tokens (", max_tokens, ") or shorten it");
  return question;
}

}  // namespace pipeline::tasks::conversation
