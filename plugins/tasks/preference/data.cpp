#include "plugins/tasks/preference/data.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/messages/conversation_file.hpp"

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
  for (const std::string& key : {data.prompt_column, data.chosen_column, data.rejected_column})
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

Conversation parsed(const json& record, const DataOptions& data) {
  Conversation chosen = with_answer(record, data, data.chosen_column);
  chosen.other = with_answer(record, data, data.rejected_column).pack();
  return chosen;
}

std::string options_key(const DataOptions& data) {
  return concat("pairs/1\n", data.prompt_column, "\n", data.chosen_column, "\n", data.rejected_column);
}

// Calls the collector with the chosen conversation of each record, which has the other beside it.
void read_pairs(const sources::SourceFiles& files, const DataOptions& data, messages::Collector& collector,
                const messages::ReadHooks& hooks) {
  std::vector<std::string> columns = messages::record_keys({});
  for (const std::string& column : {data.prompt_column, data.chosen_column, data.rejected_column})
    if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
  messages::read_objects(
      files, columns, [&](const json& record) { return parsed(record, data); }, collector, hooks);
}

// Beside the tokens: how many parts the chosen sequence has, and both conversations.
std::string beside(size_t parts, const Conversation& chosen, const std::string& rejected) {
  std::string bytes;
  files::put_text(bytes, std::to_string(parts));
  files::put_text(bytes, chosen.pack());
  files::put_text(bytes, rejected);
  return bytes;
}

struct Beside {
  std::string parts, chosen, rejected;
};
Beside beside_of(const TokenSample& sample) {
  std::string_view bytes = sample.beside;
  Beside found;
  for (std::string* text : {&found.parts, &found.chosen, &found.rejected})
    if (!files::take_text(bytes, *text)) throw messages::DataError("a cached pair is damaged");
  return found;
}

}  // namespace

Pair Recipe::pair_of(const Conversation& chosen, const Conversation& rejected) const {
  const size_t common = common_turns(chosen, rejected);
  if (common == chosen.turns.size() && common == rejected.turns.size())
    throw messages::DataError("two answers that are equal");
  if (common == 0) throw messages::DataError("two conversations that do not begin alike");
  const auto sequence = [&](const Conversation& one, const char* which) {
    conversation::ChatTokens tokens = conversation::tokens_of(one, format);
    if (const std::string problem = conversation::problem_of(one, tokens); !problem.empty())
      throw messages::DataError(problem);
    if (one.turns.size() == common || !one.turns.back().is_assistant())
      throw messages::DataError(concat("a ", which, " conversation that does not end with an answer"));
    conversation::Sequence made = pipeline::chat::make_sequence(
        tokens, max_tokens, [&](size_t turn) { return turn >= common && one.turns.at(turn).is_learnt; });
    if (!made.has_target())
      throw messages::DataError(
          concat("a ", which, " answer of which nothing is within task.chat.max_tokens (", max_tokens, ")"));
    return made;
  };
  Pair pair{sequence(chosen, "chosen"), sequence(rejected, "rejected")};
  if (pair.chosen.tokens == pair.rejected.tokens && pair.chosen.targets == pair.rejected.targets)
    throw messages::DataError(
        concat("two answers that are equal within task.chat.max_tokens (", max_tokens, ")"));
  return pair;
}

messages::Source chosen_source(const sources::SourceFiles& files, const DataOptions& data) {
  return {
      .files = files,
      .options = options_key(data),
      .read =
          [files, &data](const auto& sink, messages::ReadReport& report, const messages::ReadHooks& hooks) {
            messages::Collector collector(
                [](const Conversation& one) { return conversation::problem_of(one, true); }, sink, report,
                hooks.threads);
            read_pairs(files, data, collector, hooks);
            report.require_used(files.named);
          },
      .contents = [](const Conversation& one) { return std::vector{conversation::first_question(one)}; }};
}

text::Reading Recipe::reading(const sources::SourceFiles& files, const files::SplitPart& part) const {
  const auto read = [recipe = *this, files, part](const stores::TokenSink& add, const files::Hooks& hooks) {
    const auto pack = [&](const Conversation& chosen, std::string& sample) -> std::string {
      const Conversation rejected = Conversation::unpack(chosen.other);
      for (const Conversation* one : {&chosen, &rejected})
        if (std::string problem = conversation::problem_of(*one, true); !problem.empty()) return problem;
      try {
        const Pair pair = recipe.pair_of(chosen, rejected);
        auto parts = conversation::parts_of(pair.chosen), others = conversation::parts_of(pair.rejected);
        const size_t count = parts.size();
        std::ranges::move(others, std::back_inserter(parts));
        sample = stores::pack_tokens(parts, beside(count, chosen, chosen.other),
                                     static_cast<uint32_t>(recipe.tokenizer->vocab_size()));
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    const auto take = [&](Conversation&& chosen, std::string&& sample) {
      if (part.takes(conversation::first_question(chosen))) add(std::move(sample));
    };
    messages::ReadReport report;
    messages::Collector collector(pack, take, report, hooks.threads);
    read_pairs(files, recipe.data, collector,
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
                               .notes = report.notes};
  };
  return {.options = concat(options_key(data), "\n", max_tokens, "\n", format.key()), .read = read};
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
  const size_t parts = std::min<size_t>(std::stoul(beside_of(sample).parts), all.size());
  std::vector<text::Sequence> result{conversation::sequence_of(all.first(parts))};
  if (parts < all.size()) result.push_back(conversation::sequence_of(all.subspan(parts)));
  return result;
}

Conversation chosen_of(const TokenSample& sample) { return Conversation::unpack(beside_of(sample).chosen); }
Conversation rejected_of(const TokenSample& sample) {
  return Conversation::unpack(beside_of(sample).rejected);
}

}  // namespace pipeline::tasks::preference
