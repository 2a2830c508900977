// What of a conversation is learnt, and how a long one is cut.
#include "plugins/tasks/conversation/sequence.hpp"

#include <gmock/gmock.h>
#include <pipeline/error.hpp>

#include "plugins/models/tokenizer/bpe_trainer.hpp"
#include "plugins/models/tokenizer/byte_level_bpe.hpp"

namespace pipeline::tasks::conversation {
namespace {

using testing::HasSubstr;

// A token a letter, so that a length is the text's.
const ChatFormat& letters() {
  static const tokenizer::TokenizerPtr tokenizer = [] {
    tokenizer::BpeTrainer trainer;
    trainer.add("a");
    return std::make_shared<const tokenizer::ByteLevelBpe>(trainer.train({.vocab_size = 257}));
  }();
  static const ChatFormat format(
      "{% for m in messages %}{{ {'user': 'U', 'assistant': 'A', 'system': 'S'}[m.role] + m.content }}{% if "
      "m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}{{ 'A' if add_generation_prompt }}",
      "letters.jinja", tokenizer, 0);
  return format;
}

Conversation conversation(const std::vector<std::pair<std::string, std::string>>& turns) {
  Conversation one{.id = "c", .images = {}, .turns = {}};
  for (const auto& [role, text] : turns) one.turns.push_back({.role = role, .text = text});
  return one;
}

Sequence sequence_by_letters(const Conversation& one, int64_t most, Learn learn) {
  return make_sequence(one, tokens_of(one, letters()), letters(), most, learn);
}

// The text that is read, with "." for the end of text; "^" in a line below it marks what is learnt.
std::string shown(const text::Sequence& sequence) {
  std::string text = "?", learnt = " ";
  const auto letter = [](int64_t token) {
    return token == letters().end_token() ? "." : letters().token_bytes(token);
  };
  text = letter(sequence.tokens.at(0));
  for (size_t i = 0; i < sequence.targets.size(); ++i) {
    if (i + 1 < sequence.tokens.size())
      text += letter(sequence.tokens[i + 1]);
    else if (sequence.targets[i] >= 0)
      text += letter(sequence.targets[i]);
    learnt += sequence.targets[i] >= 0 ? "^" : " ";
  }
  return text + "\n" + learnt;
}

// The sequence as it comes back from a store.
std::string shown(const Conversation& one, int64_t most = 100, Learn learn = Learn::kAnswers) {
  const Sequence sequence = sequence_by_letters(one, most, learn);
  const std::string packed = pack_sequence(sequence, one, 257);
  const stores::TokenSample sample = stores::unpack_tokens(packed).value();
  EXPECT_EQ(sample.has_target(), sequence.has_target());
  EXPECT_EQ(conversation_of(sample).pack(), one.pack());
  const text::Sequence stored = sequence_of(sample);
  EXPECT_EQ(stored.tokens, sequence.tokens);
  EXPECT_EQ(stored.targets, sequence.targets);
  return shown(stored);
}

const Conversation& two() {
  static const Conversation one =
      conversation({{"system", "s"}, {"user", "q"}, {"assistant", "x"}, {"user", "r"}, {"assistant", "yz"}});
  return one;
}

TEST(ChatSequence, LearnsAnswersTheLastOrAll) {
  EXPECT_EQ(shown(two()), "SsUqAx.UrAyz.\n     ^^   ^^^");
  EXPECT_EQ(shown(two(), 100, Learn::kLastAnswer), "SsUqAx.UrAyz.\n          ^^^");
  EXPECT_EQ(shown(two(), 100, Learn::kAll), "SsUqAx.UrAyz.\n ^^^^^^^^^^^^");
  Conversation weighted = two();
  weighted.turns[2].is_learnt = false;
  EXPECT_EQ(shown(weighted), "SsUqAx.UrAyz.\n          ^^^");
}

TEST(ChatSequence, ALongOneIsCutAtATurn) {
  EXPECT_EQ(shown(two(), 12), shown(two()));  // the last token is read by nothing
  EXPECT_EQ(shown(two(), 11), "SsUqAx.\n     ^^");
  EXPECT_TRUE(sequence_by_letters(two(), 11, Learn::kAnswers).is_cut);
  EXPECT_FALSE(sequence_by_letters(two(), 12, Learn::kAnswers).is_cut);
  EXPECT_EQ(shown(two(), 5), "SsUqAx\n     ^") << "the only answer, within";
  EXPECT_FALSE(sequence_by_letters(two(), 4, Learn::kAnswers).has_target());
  EXPECT_EQ(shown(two(), 8, Learn::kLastAnswer), "SsUrAyz.\n     ^^^")
      << "the oldest turns, but for the system's";
}

TEST(ChatSequence, WhatFollowsTheLastAnswerTeachesNothing) {
  EXPECT_EQ(shown(conversation({{"user", "q"}, {"assistant", "x"}, {"user", "long question"}})),
            "UqAx.\n   ^^");
  EXPECT_EQ(shown(conversation({{"user", "q"}}), 100), "Uq\n   ");
}

TEST(ChatSequence, ATextByItselfIsLearntWhole) {
  const Conversation text = conversation({{"text", "abc"}});
  EXPECT_EQ(shown(text), "abc.\n ^^^");
  EXPECT_EQ(shown(text, 2), "abc\n ^^");
}

TEST(ChatSequence, APromptHasTheTurnsBeforeAndLeavesOutTheOldest) {
  const auto prompt = [&](size_t turn, int64_t most) {
    return letters().answer_text(make_prompt(two(), turn, letters(), most, 3));
  };
  EXPECT_EQ(answered_turn(two()), 4u);
  EXPECT_EQ(answered_turn(conversation({{"user", "q"}})), 1u);
  EXPECT_EQ(prompt(2, 100), "SsUqA");
  EXPECT_EQ(prompt(4, 100), "SsUqAx<|endoftext|>UrA");
  EXPECT_EQ(prompt(4, 8), "SsUrA");
  EXPECT_EQ(prompt(4, 7), "");
}

TEST(ChatSequence, WhatCannotBeUsedIsSaid) {
  const auto problem = [](const Conversation& one, bool answer_required = true) {
    return problem_of(one, answer_required);
  };
  EXPECT_EQ(problem(two()), "");
  EXPECT_EQ(problem(conversation({})), "no turns");
  EXPECT_EQ(problem(conversation({{"user", "q"}})), "no turn of the assistant");
  EXPECT_EQ(problem(conversation({{"user", "q"}}), false), "");
  EXPECT_EQ(problem(conversation({{"user", "q"}, {"assistant", " "}})), "an answer that is empty");
  EXPECT_EQ(problem(conversation({{"user", ""}, {"assistant", "a"}})), "a turn of the user that is empty");
  EXPECT_EQ(problem(conversation({{"user", "\uFDD0"}, {"assistant", "a"}})),
            "a character that no text has (U+FDD0 to U+FDD2)");
  try {
    tokens_of(conversation({{"user", "q"}, {"tool", "t"}, {"assistant", "a"}}), letters());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("letters.jinja, line 1 of its chat template"));
  }
  Conversation unlearnt = two();
  unlearnt.turns[2].is_learnt = unlearnt.turns[4].is_learnt = false;
  EXPECT_EQ(problem(unlearnt), "no answer that is learnt: their \"weight\" is 0");
  Conversation call = conversation({{"user", "q"}, {"assistant", ""}});
  call.turns[1].more = R"({"tool_calls": [{}]})";
  EXPECT_EQ(problem(call), "");
  EXPECT_EQ(problem_of(call, tokens_of(call, letters())),
            "an answer of which the chat template writes nothing");
  Conversation picture = two();
  picture.images = {"a.png"};
  EXPECT_EQ(problem(picture), "a picture, which this task does not see: the task vlm does");
}

}  // namespace
}  // namespace pipeline::tasks::conversation
