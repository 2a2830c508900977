#include "plugins/tasks/chat/corpus.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "files/data_errors.hpp"
#include "files/regular_file.hpp"
#include "files/text_file.hpp"

namespace pipeline::tasks::chat {

using pipeline::chat::template_names;

namespace {

namespace fs = std::filesystem;
using messages::ConversationStore;

constexpr std::array kSplits{Split::kTrain, Split::kVal, Split::kTest};

// Noon of that day, here.
std::optional<std::time_t> noon_of(const std::string& date) {
  std::tm day{};
  if (const char* end = ::strptime(date.c_str(), "%Y-%m-%d", &day); end == nullptr || *end != '\0')
    return std::nullopt;
  day.tm_hour = 12;
  day.tm_isdst = -1;
  return std::mktime(&day);
}

// What conversations that belong to one part of the data have in common.
std::string first_question(const Conversation& conversation) {
  for (const Turn& turn : conversation.turns)
    if (turn.role == "user") return turn.text;
  return conversation.turns.front().text;
}

// The conversations of a source that the task can use. `format`: which must be able to write them, if it is
// known. Counts those that are longer than `max_tokens`.
messages::Source source_of(sources::SourceFiles&& files, const DataOptions& data, bool answer_required,
                           const ChatFormat* format, const tokenizer::Tokenizer* tokenizer,
                           int64_t max_tokens, Learn learn) {
  const messages::TextOptions options{.columns = {data.question_column, data.answer_column, ""},
                                      .answer_required = answer_required,
                                      .quotes = records::quotes_named(data.quotes)};
  std::string key = concat("chat/2 ", answer_required, " ", data.quotes, "\n", data.question_column, "\n",
                           data.answer_column);
  if (format != nullptr)
    key += concat("\n", max_tokens, " ", static_cast<int>(learn), " ", tokenizer->fingerprint(), "\n",
                  format->key());
  const auto read = [=, files = files](const auto& sink, messages::ReadReport& report,
                                       const messages::ReadHooks& hooks) {
    std::atomic<uint64_t> cut = 0, cut_texts = 0, marked = 0, tokens = 0, left_out = 0;
    const auto check = [&](const Conversation& conversation) {
      std::string problem = problem_of(conversation, answer_required, format);
      if (!problem.empty() || format == nullptr || !answer_required) return problem;
      const Sequence sequence = make_sequence(conversation, *format, max_tokens, learn);
      (conversation.is_plain_text() ? cut_texts : cut) += sequence.is_cut ? 1 : 0;
      tokens += sequence.tokens.size() + sequence.left_out;
      left_out += sequence.is_cut ? sequence.left_out : 0;
      marked += conversation.is_plain_text() && tokenizer->first_special(conversation.turns[0].text).bytes > 0
                    ? 1
                    : 0;
      return sequence.has_target() ? "" : concat("no answer within task.chat.max_tokens (", max_tokens, ")");
    };
    messages::Collector collector(check, sink, report, hooks.threads);
    messages::read_texts(files, options, collector, hooks);
    report.require_used(files.named);
    if (marked > 0)
      report.notes +=
          concat(files.named, ": ", marked, marked == 1 ? " text has" : " texts have",
                 " special tokens in it, which are learnt as letters: of conversations that are already "
                 "written by a template give the messages\n");
    const auto tell_cut = [&](uint64_t count, const char* noun, const char* where) {
      if (count > 0)
        report.notes += concat(files.named, ": ", count, " ", noun, count == 1 ? " is" : "s are",
                               " longer than task.chat.max_tokens = ", max_tokens, " and cut ", where, "\n");
    };
    tell_cut(cut, "conversation", "at a turn");
    tell_cut(cut_texts, "text", "there");
    if (left_out > 0)
      report.notes +=
          concat(files.named, ": what is behind a cut is not learnt: ", left_out, " of ", tokens, " tokens (",
                 std::max<int64_t>(
                     1, std::lround(100.0 * static_cast<double>(left_out) / static_cast<double>(tokens))),
                 "%): divide what is longer into several records, or raise task.chat.max_tokens\n");
  };
  return {.files = files, .options = key, .read = read, .contents = [](const Conversation& conversation) {
            return std::vector{first_question(conversation)};
          }};
}

}  // namespace

void ChatOptions::validate(const ConfigErrors& errors) const {
  if (!noon_of(date)) errors("date", "must be a date such as 2024-07-26");
}

std::string ChatOptions::problem_of(const std::string& name) {
  const std::vector<std::string> known = template_names();
  if (name == "auto" || std::ranges::find(known, name) != known.end()) return "";
  const std::string problem = files::path_problem(name, "file");
  return problem.empty() ? ""
                         : problem + "; a template is auto, plain, simple, vicuna, chatml, llama3, or a file";
}

Corpus::Corpus(const ChatConfig& config, const Context& context, common::TaskTokenizer& tokenizer,
               const std::function<void(const char* key, const std::string& problem)>& refuse)
    : config_(config), context_(context), refuse_(refuse), tokenizer_(tokenizer) {
  const auto train_texts = [&] {
    open(Split::kTrain, nullptr);
    const Conversations& train = stores_[static_cast<size_t>(Split::kTrain)];
    if (train.size() == 0) refuse_("data.train", "is needed to train a tokenizer on");
    std::vector<const ConversationStore*> stores;
    for (const ConversationStore& store : train.stores()) stores.push_back(&store);
    return common::training_texts(messages::texts_of(std::move(stores)), config_.tokenizer.vocab_size,
                                  "conversations");
  };
  files::with_data_errors([&] {
    tokenizer_.open(train_texts);
    open_format();
    if (!config_.ask.prompt.empty() && context_.run().purpose == PL_PURPOSE_PREDICT) {
      asked_ = {.id = "prompt", .images = {}, .turns = {{.role = "user", .text = config_.ask.prompt}}};
      if (!config_.ask.system.empty())
        asked_.turns.insert(asked_.turns.begin(), {.role = "system", .text = config_.ask.system});
      if (const std::string problem = problem_of(asked_, false, format_.get()); !problem.empty())
        refuse_("ask.prompt", problem);
    }
    if (context_.run().purpose == PL_PURPOSE_TRAIN)
      for (const Split split : kSplits) open(split, format_.get());
  });
  if (const double share = config_.data.validation_share;
      share > 0 && context_.run().purpose == PL_PURPOSE_TRAIN && size(Split::kTrain) > 0)
    context_.info(files::held_out_text(config_.data.named_for_training(), share,
                                       store(Split::kTrain).records(), store(Split::kVal).records()));
}

void Corpus::open_format() {
  tokenizer_.require_end_of_text("which an answer ends with");
  auto [source, file] = pipeline::chat::template_of(tokenizer_->files());
  // A model is used with the template that it learnt with, which came with its tokenizer.
  const bool has_own = tokenizer_.is_kept() && !source.empty();
  const bool is_gone =
      has_own && config_.chat.chat_template.ends_with(".jinja") && !fs::exists(config_.chat.chat_template);
  if (is_gone)
    context_.info("chat       ", config_.chat.chat_template,
                  " is not there: using the template that came with the weights");
  const std::string wanted = is_gone || (has_own && context_.run().purpose != PL_PURPOSE_TRAIN)
                                 ? "auto"
                                 : config_.chat.chat_template;
  if (wanted != "auto" || source.empty()) {
    const std::string name = wanted == "auto" ? "simple" : wanted;
    const std::vector<std::string> known = template_names();
    if (std::ranges::find(known, name) != known.end()) {
      std::tie(source, file) = std::pair(pipeline::chat::named_template(name, *tokenizer_),
                                         "task.chat.template = \"" + name + "\"");
      if (wanted == "auto" && !config_.tokenizer.path.empty())
        context_.info(
            "chat       the tokenizer has no chat template: the turns are written as "
            "task.chat.template = \"simple\" does");
    } else {
      if (const std::string problem = ChatOptions::problem_of(wanted); !problem.empty())
        refuse_("chat.template", problem);
      std::ifstream stream(wanted, std::ios::binary);
      source.assign(std::istreambuf_iterator<char>(stream), {});
      file = wanted;
    }
    tokenizer_.replace(pipeline::chat::with_template(tokenizer_.shared(), source));
  }
  format_ =
      std::make_unique<const ChatFormat>(source, file, tokenizer_.shared(), *noon_of(config_.chat.date));
  if (format_->tells_date())
    context_.info("chat       the template writes the date: it is told ", config_.chat.date,
                  ", task.chat.date");
  if (!format_->learns_end())
    context_.warn(file,
                  ": its {% generation %} leaves out the token that ends an answer, so the model does not "
                  "learn to stop");
  if (!format_->ends_answers())
    context_.warn(
        file,
        ": no special token ends an answer: only the last one of a conversation is followed by the end "
        "of text, so the model learns to stop there alone");
}

const Corpus::Conversations& Corpus::store(Split split) const {
  const auto at = static_cast<size_t>(split);
  if (!is_open_[at] && context_.run().purpose != PL_PURPOSE_TRAIN)
    files::with_data_errors([&] { open(split, format_.get()); });
  return stores_[at];
}

void Corpus::open(Split split, const ChatFormat* format) const {
  is_open_[static_cast<size_t>(split)] = format != nullptr;
  const sources::SplitOptions::Sources wanted = config_.data.of(split);
  const bool to_use = context_.run().purpose != PL_PURPOSE_TRAIN && format != nullptr;
  const bool answer_required = split != Split::kTest || context_.run().purpose == PL_PURPOSE_EVALUATE;
  const std::string cache(view(context_.run().cache_dir));
  std::vector<ConversationStore> stores;
  for (const std::string& named : wanted.named) {
    if (const std::string problem = sources::problem_of(named); !problem.empty()) {
      if (!to_use) refuse_(wanted.key, named + ": " + problem);
      context_.warn(named, " is not there: going on without it");
      return;
    }
    const std::string what = "reading " + fs::path(named).filename().string();
    const files::Hooks hooks{
        .threads = std::max(1u, context_.run().threads),
        .progress = [&](uint64_t done, uint64_t total) { context_.progress(what, done, total); },
        .note = [&](const std::string& line) { context_.info(line); },
        .cancelled = [&] { return context_.cancelled(); }};
    stores.emplace_back(
        cache,
        source_of(sources::find_and_hash(named, cache, hooks), config_.data, answer_required, format,
                  &*tokenizer_, config_.chat.max_tokens, learn_named(config_.chat.learn)),
        hooks, wanted.part);
    // What training has said of its files is not said again.
    if (wanted.part.is_validation || format == nullptr) continue;
    const auto say = [](const std::string& text, const auto& line) {
      std::istringstream lines(text);
      for (std::string one; std::getline(lines, one);) line(one);
    };
    say(stores.back().report(), [&](const std::string& line) { context_.warn(line); });
    say(stores.back().notes(), [&](const std::string& line) { context_.info(line); });
  }
  stores_[static_cast<size_t>(split)] =
      Conversations(std::move(stores), wanted.names, wanted.shares, context_.seed("mixture"));
}

Conversation Corpus::conversation(Split split, uint64_t id, uint64_t epoch) const {
  if (is_asked(split)) return asked_;
  return files::with_data_errors([&] {
    return store(split).with(epoch, id, [](const ConversationStore& one, uint64_t i) { return one[i]; });
  });
}

size_t Corpus::bytes(Split split, uint64_t id) const {
  if (is_asked(split)) return 0;
  return store(split).with(0, id, [](const ConversationStore& one, uint64_t i) { return one.bytes(i); });
}

std::string Corpus::fingerprint(std::initializer_list<Split> splits) const {
  std::string result = concat(tokenizer_->fingerprint(), " ", files::hash128(format_->source()).hex());
  for (const Split split : splits)
    if (is_open_[static_cast<size_t>(split)] || context_.run().world_size > 1)
      result += " " + store(split).fingerprint();
  return result;
}

}  // namespace pipeline::tasks::chat
