#include "plugins/tasks/preference/data.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/files/hash128.hpp"
#include "plugins/tasks/conversation/reading.hpp"

namespace pipeline::tasks::preference {
namespace {

using json = nlohmann::ordered_json;

// How many turns both begin with.
size_t common_turns(const Conversation& a, const Conversation& b) {
  const auto is_same = [](const messages::Turn& x, const messages::Turn& y) {
    return x.role == y.role && x.text == y.text && x.more == y.more && x.parts == y.parts;
  };
  const auto [first, second] = std::ranges::mismatch(a.turns, b.turns, is_same);
  return static_cast<size_t>(first - a.turns.begin());
}

// A list of messages that does not begin with an answer has the question in it.
bool is_whole(const json& answer) {
  if (!answer.is_array() || answer.empty() || !answer[0].is_object()) return false;
  const json* const role = messages::find(answer[0], answer[0].contains("role") ? "role" : "from");
  return role == nullptr || (*role != "assistant" && *role != "gpt");
}

// The record with one of its answers, as a conversation.
Conversation with_answer(const json& record, const DataOptions& data, const std::string& answer) {
  const json* const given = messages::find(record, answer);
  if (given == nullptr) throw messages::DataError("no \"" + answer + "\"");
  json one = record;
  for (const std::string& key : {data.prompt_column, data.chosen_column, data.rejected_column,
                                 data.completion_column, data.label_column})
    one.erase(key);
  if (is_whole(*given)) {
    one["messages"] = *given;
    return messages::conversation_of_turns(one);
  }
  const json* const prompt = messages::find(record, data.prompt_column);
  if (prompt == nullptr)
    throw messages::DataError("no \"" + data.prompt_column + "\", and \"" + answer + "\" is no conversation");
  one["prompt"] = *prompt;
  one["completion"] = *given;
  return messages::conversation_of(one, {.question = "prompt", .answer = "completion", .context = ""});
}

// An answer by itself, or null: the record has none.
std::optional<Conversation> judged(const json& record, const DataOptions& data) {
  const json* const label = messages::find(record, data.label_column);
  if (label == nullptr || messages::find(record, data.completion_column) == nullptr) return std::nullopt;
  const double value = label->is_number()    ? label->get<double>()
                       : label->is_boolean() ? static_cast<double>(label->get<bool>())
                                             : -1;
  if (value != 0 && value != 1)
    throw messages::DataError("\"" + data.label_column + "\" is " + messages::kind_of(*label) +
                              ", must be true or false, 1 or 0");
  Conversation answered = with_answer(record, data, data.completion_column);
  answered.other = value == 1 ? "1" : "0";
  return answered;
}

Conversation parsed(const json& record, const DataOptions& data, bool is_unpaired) {
  if (is_unpaired)
    if (std::optional<Conversation> answered = judged(record, data)) return std::move(*answered);
  Conversation chosen = with_answer(record, data, data.chosen_column);
  chosen.other = with_answer(record, data, data.rejected_column).pack();
  return chosen;
}

bool is_pair(const Conversation& one) { return one.other.size() > 1; }

std::string options_key(const DataOptions& data) {
  return concat("pairs/1\n", data.prompt_column, "\n", data.chosen_column, "\n", data.rejected_column, "\n",
                data.completion_column, "\n", data.label_column);
}

// Of each record the chosen conversation, which has the other beside it, or a judged one.
conversation::ReadConversations reader(const sources::SourceFiles& files, const DataOptions& data,
                                       bool is_unpaired) {
  return [files, &data, is_unpaired](messages::Collector& collector, const messages::ReadHooks& hooks) {
    std::vector<std::string> columns = messages::record_keys({});
    for (const std::string& column : {data.prompt_column, data.chosen_column, data.rejected_column,
                                      data.completion_column, data.label_column})
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    messages::read_objects(
        files, columns,
        [&data, is_unpaired](const json& record) { return parsed(record, data, is_unpaired); }, collector,
        hooks);
  };
}

// Beside the tokens: how many parts the first sequence has, its conversation, and what that has as `other`.
std::string beside(size_t parts, const Conversation& first, const std::string& other) {
  std::string bytes;
  for (const std::string& text : {std::to_string(parts), first.pack(), other}) files::put_text(bytes, text);
  return bytes;
}

// Text `number` of these. Only the texts before it are passed over: every epoch asks for the first.
std::string beside_of(const TokenSample& sample, int number) {
  std::string_view bytes = sample.beside;
  std::string text;
  for (int i = 0; i <= number; ++i)
    if (!files::take_text(bytes, text)) throw messages::DataError("a cached pair is damaged");
  return text;
}

}  // namespace

conversation::Sequence Recipe::sequence_of(const Conversation& one, size_t question_turns,
                                           const char* which) const {
  chat::ChatTokens tokens = conversation::tokens_of(one, format);
  if (const std::string problem = conversation::problem_of(one, tokens); !problem.empty())
    throw messages::DataError(problem);
  if (one.turns.size() <= question_turns || !one.turns.back().is_assistant())
    throw messages::DataError(concat("a ", which, " conversation that does not end with an answer"));
  if (is_scored) {
    if (static_cast<int64_t>(tokens.tokens.size()) > max_tokens)
      throw messages::DataError(
          concat("a ", which, " answer that ends behind task.chat.max_tokens (", max_tokens, ")"));
    conversation::Sequence whole{.tokens = scored(tokens.tokens), .targets = {}};
    whole.targets.assign(whole.tokens.size(), -1);
    whole.targets.back() = whole.tokens.back();
    return whole;
  }
  conversation::Sequence made = chat::make_sequence(tokens, max_tokens, [&](size_t turn) {
    return turn >= question_turns && one.turns.at(turn).is_learnt;
  });
  if (!made.has_target())
    throw messages::DataError(
        concat("a ", which, " answer of which nothing is within task.chat.max_tokens (", max_tokens, ")"));
  return made;
}

std::string Recipe::pair_of(const Conversation& chosen) const {
  const Conversation rejected = Conversation::unpack(chosen.other);
  if (const std::string problem = conversation::problem_of(rejected, true); !problem.empty())
    throw messages::DataError(problem);
  const size_t common = common_turns(chosen, rejected);
  if (common == chosen.turns.size() && common == rejected.turns.size())
    throw messages::DataError("two answers that are equal");
  if (common == 0) throw messages::DataError("two conversations that do not begin alike");
  const conversation::Sequence first = sequence_of(chosen, common, "chosen"),
                               second = sequence_of(rejected, common, "rejected");
  if (first.tokens == second.tokens && first.targets == second.targets)
    throw messages::DataError(
        concat("two answers that are equal within task.chat.max_tokens (", max_tokens, ")"));
  const auto vocabulary = static_cast<uint32_t>(tokenizer->vocab_size());
  auto parts = conversation::parts_of(first), others = conversation::parts_of(second);
  if (!is_unpaired) {
    const size_t count = parts.size();
    std::ranges::move(others, std::back_inserter(parts));
    return stores::pack_tokens(parts, beside(count, chosen, chosen.other), vocabulary);
  }
  std::string both;
  files::put_text(both, stores::pack_tokens(parts, beside(parts.size(), chosen, "1"), vocabulary));
  files::put_text(both, stores::pack_tokens(others, beside(others.size(), rejected, "0"), vocabulary));
  return both;
}

std::string Recipe::answers_of(const Conversation& judged) const {
  if (is_pair(judged)) return pair_of(judged);
  const auto parts = conversation::parts_of(sequence_of(judged, judged.turns.size() - 1, "judged"));
  std::string one;
  files::put_text(one, stores::pack_tokens(parts, beside(parts.size(), judged, judged.other),
                                           static_cast<uint32_t>(tokenizer->vocab_size())));
  return one;
}

messages::Source chosen_source(const sources::SourceFiles& files, const DataOptions& data, bool is_unpaired) {
  return conversation::plain_source(files, options_key(data), reader(files, data, is_unpaired));
}

text::Reading Recipe::reading(const sources::SourceFiles& files, const files::SplitPart& part) const {
  const auto read = [recipe = *this, files, part](const stores::TokenSink& add, const files::Hooks& hooks) {
    const auto add_each = [&](std::string&& answers) {
      std::string answer;
      for (std::string_view rest = answers; files::take_text(rest, answer);) add(std::move(answer));
    };
    return conversation::read_samples(
        files, part, recipe.is_unpaired ? stores::TokenSink(add_each) : add, hooks,
        {.problem_of = [](const Conversation& one) { return conversation::problem_of(one, true); },
         .sample_of =
             [&](const Conversation& one) {
               return recipe.is_unpaired ? recipe.answers_of(one) : recipe.pair_of(one);
             }},
        reader(files, recipe.data, recipe.is_unpaired));
  };
  return {.options = concat(options_key(data), "\n", max_tokens, " ", is_unpaired,
                            is_scored ? concat(" scored ", padding) : "", "\n", format.key()),
          .read = read};
}

std::string Recipe::asked_sample(const Conversation& conversation) const {
  const std::vector<int64_t> prompt = format.prompt(conversation.variables());
  const auto parts =
      conversation::parts_of({.tokens = prompt, .targets = std::vector<int64_t>(prompt.size(), -1)});
  return stores::pack_tokens(parts, beside(parts.size(), conversation, conversation.pack()),
                             static_cast<uint32_t>(tokenizer->vocab_size()));
}

std::vector<text::Sequence> sequences_of(const TokenSample& sample) {
  const std::span all(sample.parts);
  const size_t parts = std::min<size_t>(std::stoul(beside_of(sample, 0)), all.size());
  std::vector<text::Sequence> result{conversation::sequence_of(all.first(parts))};
  if (parts < all.size()) result.push_back(conversation::sequence_of(all.subspan(parts)));
  return result;
}

Conversation conversation_of(const TokenSample& sample) { return Conversation::unpack(beside_of(sample, 1)); }
Conversation rejected_of(const TokenSample& sample) { return Conversation::unpack(beside_of(sample, 2)); }
bool is_wanted(const TokenSample& sample) { return beside_of(sample, 2) == "1"; }

text::Sequence crossed(const text::Sequence& question, const text::Sequence& answer, int64_t max_tokens) {
  const auto begin_of = [](const text::Sequence& one) {
    return std::ranges::find_if(one.targets, [](int64_t target) { return target >= 0; }) -
           one.targets.begin();
  };
  const auto mine = begin_of(question), theirs = begin_of(answer);
  text::Sequence result;
  result.tokens.assign(question.tokens.begin(), question.tokens.begin() + mine + 1);
  result.targets.assign(static_cast<size_t>(mine), -1);
  result.tokens.insert(result.tokens.end(), answer.tokens.begin() + theirs + 1, answer.tokens.end());
  result.targets.insert(result.targets.end(), answer.targets.begin() + theirs, answer.targets.end());
  const auto most = static_cast<size_t>(max_tokens);
  if (result.tokens.size() > most) result.tokens.resize(most), result.targets.resize(most);
  return result;
}

}  // namespace pipeline::tasks::preference
