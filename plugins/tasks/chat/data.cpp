#include "plugins/tasks/chat/data.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <tuple>

#include "files/regular_file.hpp"

namespace pipeline::tasks::chat {

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

// What conversations that belong to one part of the data have in common.
std::string first_question(const Conversation& conversation) {
  for (const Turn& turn : conversation.turns)
    if (turn.role == "user") return turn.text;
  return conversation.turns.front().text;
}

messages::TextOptions text_options(const DataOptions& data, bool answer_required) {
  return {.columns = {data.question_column, data.answer_column, ""},
          .answer_required = answer_required,
          .quotes = records::quotes_named(data.quotes)};
}

std::string options_key(const DataOptions& data, bool answer_required) {
  return concat("chat/3 ", answer_required, " ", data.quotes, "\n", data.question_column, "\n",
                data.answer_column);
}

void require(const std::string& problem) {
  if (!problem.empty()) throw messages::DataError(problem);
}

}  // namespace

void ChatOptions::validate(const ConfigErrors& errors) const {
  if (!noon_of(date)) errors("date", "must be a date such as 2024-07-26");
}

std::string ChatOptions::problem_of(const std::string& name) {
  if (name == "auto" || is_template_name(name)) return "";
  const std::string problem = files::path_problem(name, "file");
  return problem.empty() ? ""
                         : problem + "; a template is auto, plain, simple, vicuna, chatml, llama3, or a file";
}

std::unique_ptr<const ChatFormat> open_format(const ChatConfig& config, const Context& context,
                                              common::TaskTokenizer& tokenizer, const ConfigErrors& errors) {
  tokenizer.require_end_of_text("which an answer ends with");
  auto [source, file] = pipeline::chat::template_of(tokenizer->files());
  const std::string& named = config.chat.chat_template;
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
      if (wanted == "auto" && !config.tokenizer.path.empty())
        context.info(
            "chat       the tokenizer has no chat template: the turns are written as "
            "task.chat.template = \"simple\" does");
    } else {
      if (const std::string problem = ChatOptions::problem_of(wanted); !problem.empty())
        errors("chat.template", problem);
      std::ifstream stream(wanted, std::ios::binary);
      source.assign(std::istreambuf_iterator<char>(stream), {});
      file = wanted;
    }
    tokenizer.replace(pipeline::chat::with_template(tokenizer.shared(), source));
  }
  auto format =
      std::make_unique<const ChatFormat>(source, file, tokenizer.shared(), *noon_of(config.chat.date));
  if (format->tells_date())
    context.info("chat       the template writes the date: it is told ", config.chat.date,
                 ", task.chat.date");
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

// Counts over the conversations of a source, for the log.
struct Recipe::Counts {
  std::atomic<uint64_t> cut = 0, cut_texts = 0, marked = 0, tokens = 0, left_out = 0;

  void add(const Conversation& conversation, const Sequence& sequence, bool is_marked) {
    (conversation.is_plain_text() ? cut_texts : cut) += sequence.is_cut ? 1 : 0;
    tokens += sequence.tokens.size() + sequence.left_out;
    left_out += sequence.is_cut ? sequence.left_out : 0;
    marked += is_marked ? 1 : 0;
  }

  std::string notes(const std::string& named, int64_t most_tokens) const {
    std::string notes;
    if (marked > 0)
      notes += concat(named, ": ", marked, marked == 1 ? " text has" : " texts have",
                      " special tokens in it, which are learnt as letters: of conversations that are already "
                      "written by a template give the messages\n");
    const auto tell_cut = [&](uint64_t count, const char* noun, const char* where) {
      if (count > 0)
        notes += concat(named, ": ", count, " ", noun, count == 1 ? " is" : "s are",
                        " longer than task.chat.max_tokens = ", most_tokens, " and cut ", where, "\n");
    };
    tell_cut(cut, "conversation", "at a turn");
    tell_cut(cut_texts, "text", "there");
    if (left_out > 0) {
      const long percent = std::lround(100.0 * static_cast<double>(left_out) / static_cast<double>(tokens));
      notes += concat(named, ": what is behind a cut is not learnt: ", left_out, " of ", tokens, " tokens (",
                      std::max(1L, percent),
                      "%): divide what is longer into several records, or raise task.chat.max_tokens\n");
    }
    return notes;
  }
};

std::string Recipe::answered_sample(const Conversation& conversation, Counts& counts) const {
  ChatTokens chat = tokens_of(conversation, format);
  require(problem_of(conversation, chat));
  const Sequence sequence = make_sequence(conversation, std::move(chat), format, max_tokens, learn);
  const bool is_marked =
      conversation.is_plain_text() && tokenizer->first_special(conversation.turns[0].text).bytes > 0;
  counts.add(conversation, sequence, is_marked);
  if (!sequence.has_target())
    throw messages::DataError(concat("no answer within task.chat.max_tokens (", max_tokens, ")"));
  return packed(sequence, conversation);
}

std::string Recipe::asked_sample(const Conversation& conversation) const {
  std::vector<int64_t> prompt;
  if (!conversation.is_plain_text()) prompt = format.prompt(conversation.variables());
  Sequence sequence;
  try {
    sequence = make_sequence(conversation, tokens_of(conversation, format), format, max_tokens, learn);
  } catch (const Error&) {
    sequence = {.tokens = prompt, .targets = std::vector<int64_t>(prompt.size(), -1)};
  }
  return packed(sequence, conversation);
}

text::Reading Recipe::reading(const sources::SourceFiles& files, const files::SplitPart& part,
                              bool answer_required) const {
  const auto read = [recipe = *this, files, part, answer_required](const stores::TokenSink& add,
                                                                   const files::Hooks& hooks) {
    Counts counts;
    // Nothing is said of the part that is held out, so that what is not in it need not be rendered.
    const auto pack = [&](const Conversation& conversation, std::string& sample) {
      std::string problem = problem_of(conversation, answer_required);
      if (!problem.empty() || (part.is_validation && !part.takes(first_question(conversation))))
        return problem;
      try {
        sample = answer_required ? recipe.answered_sample(conversation, counts)
                                 : recipe.asked_sample(conversation);
      } catch (const Error& error) {
        problem = error.what();
      }
      return problem;
    };
    const auto take = [&](Conversation&& conversation, std::string&& sample) {
      if (part.takes(first_question(conversation))) add(std::move(sample));
    };
    messages::ReadReport report;
    messages::Collector collector(pack, take, report, hooks.threads);
    messages::read_texts(files, text_options(recipe.data, answer_required), collector,
                         {.on_bytes =
                              [&](uint64_t done) {
                                hooks.throw_if_cancelled();
                                hooks.report(done, files.bytes);
                              },
                          .threads = hooks.threads});
    report.require_used(files.named);
    sources::check_unchanged(files);
    return stores::TokenReport{.records = report.records,
                               .used = report.used,
                               .drops = report.table(files.named),
                               .notes = report.notes + counts.notes(files.named, recipe.max_tokens)};
  };
  return {.options = concat(options_key(data, answer_required), "\n", max_tokens, " ",
                            static_cast<int>(learn), "\n", format.key()),
          .read = read};
}

messages::Source plain_source(const sources::SourceFiles& files, const DataOptions& data) {
  const auto read = [files, &data](const auto& sink, messages::ReadReport& report,
                                   const messages::ReadHooks& hooks) {
    messages::Collector collector(
        [](const Conversation& conversation) { return problem_of(conversation, true); }, sink, report,
        hooks.threads);
    messages::read_texts(files, text_options(data, true), collector, hooks);
    report.require_used(files.named);
  };
  return {
      .files = files,
      .options = options_key(data, true),
      .read = read,
      .contents = [](const Conversation& conversation) { return std::vector{first_question(conversation)}; }};
}

}  // namespace pipeline::tasks::chat
