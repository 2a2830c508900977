#include "plugins/tasks/chat/data.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "plugins/tasks/conversation/reading.hpp"

namespace pipeline::tasks::chat {

namespace {

messages::TextOptions text_options(const DataOptions& data, bool answer_required) {
  return {.columns = {data.question_column, data.answer_column, ""},
          .answer_required = answer_required,
          .quotes = records::quotes_named(data.quotes)};
}

std::string options_key(const DataOptions& data, bool answer_required) {
  return concat("chat/3 ", answer_required, " ", data.quotes, "\n", data.question_column, "\n",
                data.answer_column);
}

conversation::ReadConversations reader(const sources::SourceFiles& files, const DataOptions& data,
                                       bool answer_required) {
  return [files, &data, answer_required](messages::Collector& collector, const messages::ReadHooks& hooks) {
    messages::read_texts(files, text_options(data, answer_required), collector, hooks);
  };
}

void require(const std::string& problem) {
  if (!problem.empty()) throw messages::DataError(problem);
}

}  // namespace

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
    stores::TokenReport report = conversation::read_samples(
        files, part, add, hooks,
        {.problem_of = [&](const Conversation& one) { return problem_of(one, answer_required); },
         .sample_of =
             [&](const Conversation& one) {
               return answer_required ? recipe.answered_sample(one, counts) : recipe.asked_sample(one);
             }},
        reader(files, recipe.data, answer_required));
    report.notes += counts.notes(files.named, recipe.max_tokens);
    return report;
  };
  return {.options = concat(options_key(data, answer_required), "\n", max_tokens, " ",
                            static_cast<int>(learn), "\n", format.key()),
          .read = read};
}

messages::Source plain_source(const sources::SourceFiles& files, const DataOptions& data) {
  return conversation::plain_source(files, options_key(data, true), reader(files, data, true));
}

}  // namespace pipeline::tasks::chat
