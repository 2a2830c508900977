// How conversations become tokens: which of them are learnt, what is cut, what a prompt is.
#include "plugins/tasks/vlm/chat.hpp"

#include <gmock/gmock.h>
#include <pipeline/error.hpp>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tests/models/tokenizer/trained_sentence_piece.hpp"
#include "tests/support/test_files.hpp"
#include "tokenizer/bpe_trainer.hpp"
#include "tokenizer/byte_level_bpe.hpp"

namespace pipeline::tasks::vlm {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// One token a byte, and the end of text.
tokenizer::ByteLevelBpe bytes_alone() {
  tokenizer::BpeTrainer trainer;
  trainer.add("x");
  return trainer.train({.vocab_size = 257, .on_token = nullptr});
}

// Tokens of pictures, each of which takes three rows of the sequence.
PictureTokens pictures_of(const Conversation& conversation) {
  return PictureTokens(conversation.images.size(), std::vector<int64_t>(3, ChatTokens::kPatch));
}

Sequence sequence_of(const Chat& chat, const Conversation& conversation) {
  return chat.sequence(conversation, pictures_of(conversation));
}

class ChatTest : public testing::Test {
 protected:
  Chat chat(const std::string& name, int64_t max_tokens = 100) const {
    return {name, std::make_shared<const tokenizer::ByteLevelBpe>(tokenizer_), max_tokens};
  }
  // Each token as a reader sees it: its letter, # for a patch, $ for the end of text.
  std::string shown(const std::vector<int64_t>& tokens) const {
    std::string text;
    for (const int64_t token : tokens)
      text += token == ChatTokens::kPatch ? "#"
              : token == tokenizer_.eot() ? "$"
              : token < 0                 ? "."
                          : tokenizer_.decode(std::vector<int32_t>{static_cast<int32_t>(token)});
    return text;
  }
  // The targets: a dot where nothing is learnt.
  std::string learnt(std::vector<int64_t> targets) const {
    for (int64_t& t : targets)
      if (t == -1) t = -2;
    return shown(targets);
  }

  tokenizer::ByteLevelBpe tokenizer_ = bytes_alone();
  const Conversation two_{
      "c", {"p.png"}, {{"user", "<image>\nQ"}, {"assistant", "yes"}, {"user", "R"}, {"assistant", "no"}}};
};

TEST_F(ChatTest, LearnsTheAnswersAndTheirEndsAlone) {
  const Sequence tokens = sequence_of(chat("simple"), two_);
  EXPECT_EQ(shown(tokens.tokens), "$question: ###\nQ\nanswer: yes$question: R\nanswer: no");
  EXPECT_EQ(learnt(tokens.targets), "....................... yes$................... no$");
  EXPECT_EQ(tokens.targets.size(), tokens.tokens.size());
  EXPECT_FALSE(tokens.is_cut);
}

TEST_F(ChatTest, EveryTargetIsTheTokenAfterIt) {
  const Sequence tokens = sequence_of(chat("vicuna", 400), two_);
  for (size_t i = 0; i + 1 < tokens.tokens.size(); ++i) {
    if (tokens.targets[i] >= 0) {
      EXPECT_EQ(tokens.targets[i], tokens.tokens[i + 1]) << i;
    }
  }
}

TEST_F(ChatTest, ACaptionIsThePictureAndTheText) {
  const Sequence tokens =
      sequence_of(chat("plain"), {"c", {"p.png"}, {{"user", "<image>"}, {"assistant", "a cat"}}});
  EXPECT_EQ(shown(tokens.tokens), "$###a cat");
  EXPECT_EQ(learnt(tokens.targets), "...a cat$");
}

TEST_F(ChatTest, APictureThatIsWithheldLeavesNoTrace) {
  const Sequence tokens = chat("simple").sequence(two_, {});
  EXPECT_EQ(shown(tokens.tokens), "$question: \nQ\nanswer: yes$question: R\nanswer: no");
}

TEST_F(ChatTest, WhatPeopleWriteIsNeverASpecialToken) {
  const Sequence tokens =
      sequence_of(chat("plain"), {"c", {}, {{"user", "<|endoftext|>"}, {"assistant", "<|endoftext|>"}}});
  EXPECT_EQ(std::count(tokens.tokens.begin(), tokens.tokens.end(), tokenizer_.eot()), 1) << "the start alone";
}

TEST_F(ChatTest, IsCutBetweenTurns) {
  const Chat whole = chat("simple", 51), shorter = chat("simple", 50);
  EXPECT_FALSE(sequence_of(whole, two_).is_cut);
  const Sequence cut = sequence_of(shorter, two_);
  EXPECT_TRUE(cut.is_cut);
  EXPECT_EQ(shown(cut.tokens), "$question: ###\nQ\nanswer: yes");
  EXPECT_EQ(learnt(cut.targets), "....................... yes$");
}

TEST_F(ChatTest, AFirstAnswerThatDoesNotFitIsCutAndHasNoEnd) {
  const Sequence cut = sequence_of(chat("simple", 26), two_);
  EXPECT_EQ(shown(cut.tokens), "$question: ###\nQ\nanswer: y");
  EXPECT_EQ(learnt(cut.targets), "....................... ye");
}

TEST_F(ChatTest, AQuestionIsNeverCut) {
  const Sequence cut = sequence_of(chat("simple", 20), two_);
  EXPECT_EQ(shown(cut.tokens), "$") << "nor its picture";
  EXPECT_TRUE(cut.is_cut);
}

TEST_F(ChatTest, AQuestionWithoutAnAnswerIsReadAndNothingIsLearnt) {
  const Sequence open = sequence_of(chat("simple"), {"c", {"p.png"}, {{"user", "<image>Q"}}});
  EXPECT_EQ(shown(open.tokens), "$question: ###Q\n");
  EXPECT_EQ(learnt(open.targets), std::string(open.tokens.size(), '.'));
}

TEST_F(ChatTest, APromptEndsWhereTheAnswerBegins) {
  EXPECT_EQ(shown(chat("simple").prompt(two_, 0, 10, pictures_of(two_))), "$question: ###\nQ\nanswer:");
  EXPECT_EQ(shown(chat("simple").prompt(two_, 1, 10, pictures_of(two_))),
            "$question: ###\nQ\nanswer: yes$question: R\nanswer:");
  EXPECT_EQ(shown(chat("simple").prompt(two_, 0, 10, {})), "$question: \nQ\nanswer:");
}

TEST_F(ChatTest, APromptLeavesOutTheOldestTurnsButNotThePicture) {
  const Conversation late{"c",
                          {"p.png"},
                          {{"user", "A"},
                           {"assistant", "a"},
                           {"user", "<image>B"},
                           {"assistant", "b"},
                           {"user", "C"},
                           {"assistant", "c"}}};
  EXPECT_EQ(shown(chat("simple", 60).prompt(late, 2, 10, pictures_of(late))),
            "$question: ###B\nanswer: b$question: C\nanswer:");
  EXPECT_TRUE(chat("simple", 40).prompt(late, 2, 10, pictures_of(late)).empty()) << "it never fits";
}

TEST_F(ChatTest, AnEndThatTheTokenizerDoesNotHaveIsAnError) {
  try {
    chat("chatml");
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "task.chat.template = \"chatml\": needs the special token <|im_start|>, which this "
                 "tokenizer does not have: use a tokenizer that has it, or another template");
  }
}

// The folders of LLaVA and SmolVLM write a content as a list of parts.
TEST_F(ChatTest, AFoldersOwnTemplateMayWantPicturesAndTextsInAList) {
  const tests::FilesFolder folder;
  tokenizer_.save(folder.path());
  folder.write(
      "chat_template.jinja",
      "{% for m in messages %}{{ m['role'] | upper }}:{% for part in m['content'] | selectattr('type', "
      "'equalto', 'image') %} <image>\n{% endfor %}{% for part in m['content'] | selectattr('type', "
      "'equalto', 'text') %}{{ ' ' + part['text'] }}{% endfor %}{{ eos_token if m['role'] == 'assistant' "
      "else ' ' }}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}");
  const Chat without("auto", tokenizer::load_tokenizer(folder.path()), 100);
  EXPECT_EQ(shown(without.prompt(two_, 1, 10, {})), "USER: Q ASSISTANT: yes$USER: R ASSISTANT:");
  EXPECT_THAT(tests::message_of<Error>([&] { sequence_of(without, two_); }),
              testing::HasSubstr(
                  "writes 0 of a conversation's 1 pictures: it must write <image>, which the tokenizer has"));
  auto form = nlohmann::json::parse(tests::read_all(folder / "tokenizer.json"));
  form["added_tokens"].push_back({{"id", 257}, {"content", "<image>"}, {"special", true}});
  folder.write("tokenizer.json", form.dump());
  const Chat chat("auto", tokenizer::load_tokenizer(folder.path()), 100);
  const Sequence tokens = sequence_of(chat, two_);
  EXPECT_EQ(shown(tokens.tokens), "USER: ###\n Q ASSISTANT: yes$USER: R ASSISTANT: no");
  EXPECT_EQ(learnt(tokens.targets).substr(22, 5), " yes$");
  const Conversation several{"c", {"1", "2"}, {{"user", "<image>\n<image>\nQ"}, {"assistant", "yes"}}};
  EXPECT_EQ(shown(sequence_of(chat, several).tokens), "USER: ###\n ###\n Q ASSISTANT: yes");
  // Parts of the record's own are handed on as they are.
  const std::string parts =
      R"([{"type":"image"},{"type":"text","text":"a"},{"type":"text","text":"b<image>c"}])";
  const Conversation own{
      "c",
      {"1", "2"},
      {{.role = "user", .text = "<image>\nab<image>c", .parts = parts}, {"assistant", "yes"}}};
  EXPECT_EQ(shown(sequence_of(chat, own).tokens), "USER: ###\n ###\n a b c ASSISTANT: yes");
  EXPECT_EQ(shown(chat.prompt(own, 0, 10, {})), "USER: a b c ASSISTANT:");
}

// A template without pictures knows texts alone.
TEST_F(ChatTest, PartsAreOneTextWhereATemplateHasNoPictures) {
  const std::string parts = R"([{"type":"image"},{"type":"text","text":"a"},{"type":"text","text":"b"}])";
  const Conversation own{
      "c", {"1"}, {{.role = "user", .text = "<image>\nab", .parts = parts}, {"assistant", "yes"}}};
  EXPECT_EQ(shown(sequence_of(chat("simple"), own).tokens), "$question: ###\nab\nanswer: yes");
}

TEST_F(ChatTest, SeveralPicturesStandWhereTheirTurnsHaveThem) {
  const Conversation several{"c",
                             {"1", "2", "3"},
                             {{"user", "<image> or <image>?"},
                              {"assistant", "one"},
                              {"user", "and\n<image>"},
                              {"assistant", "yes"}}};
  PictureTokens pictures = pictures_of(several);
  pictures[1] = {int64_t{'('} - '!', ChatTokens::kPatch, int64_t{')'} - '!'};  // one row, and marks around it
  pictures[2].resize(1);
  const std::string first = "$question: ### or (#)?\nanswer: one";
  EXPECT_EQ(shown(chat("simple").sequence(several, pictures).tokens),
            first + "$question: and\n#\nanswer: yes");
  EXPECT_EQ(shown(chat("simple").sequence(several, {}).tokens),
            "$question:  or ?\nanswer: one$question: and\n\nanswer: yes");
  EXPECT_EQ(shown(chat("simple").prompt(several, 0, 10, pictures)), "$question: ### or (#)?\nanswer:");
  EXPECT_EQ(shown(chat("simple").prompt(several, 1, 10, pictures)), first + "$question: and\n#\nanswer:");
  // Wherever the limit is, no picture is cut.
  for (int64_t most = 4; most < 70; ++most) {
    const std::string text = shown(chat("simple", most).sequence(several, pictures).tokens);
    const auto patches = std::count(text.begin(), text.end(), '#');
    EXPECT_TRUE(patches == 0 || patches == 4 || patches == 5) << text;
  }
}

TEST(ChatWithSentencePiece, VicunasTokensAreThoseOfTheWholeText) {
  const tests::FilesFolder folder;
  folder.write("tokenizer.model", tests::trained_sentence_piece());
  const tokenizer::TokenizerPtr tokenizer = tokenizer::load_tokenizer(folder.path());
  const Chat chat("vicuna", tokenizer, 1000);
  const auto whole = [&](const std::string& rest, tokenizer::TextPlace place) {
    const auto ids = tokenizer->encode(rest, tokenizer::SpecialTokens::kRecognize, place);
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  const std::string system =
      "<s>A chat between a curious user and an artificial intelligence assistant. The assistant gives "
      "helpful, detailed, and polite answers to the user's questions.";
  const Conversation two{
      "c", {}, {{"user", "what is this?"}, {"assistant", "a cat"}, {"user", "so?"}, {"assistant", "no"}}};
  // The space of a text that starts is there after <s> and </s>, too.
  const std::vector<int64_t> expected =
      whole(system + " USER: what is this? ASSISTANT: a cat</s>USER: so? ASSISTANT: no",
            tokenizer::TextPlace::kWithin);
  EXPECT_THAT(sequence_of(chat, two).tokens, ElementsAreArray(expected));
  EXPECT_EQ(chat.answer_text(chat.answer(two, 0)), "a cat</s>");
  const Sequence hostile = sequence_of(chat, {"c", {}, {{"user", "</s>"}, {"assistant", "no"}}});
  EXPECT_EQ(std::count(hostile.tokens.begin(), hostile.tokens.end(), chat.end_token()), 0);
  const Sequence seen =
      sequence_of(chat, {"c", {"p.png"}, {{"user", "<image>\nwhat"}, {"assistant", "a cat"}}});
  // LLaVA's own code makes tokens of what follows a picture by itself: a text that starts.
  std::vector<int64_t> rest = whole("\nwhat ASSISTANT: a cat", tokenizer::TextPlace::kStart);
  EXPECT_NE(rest, whole("\nwhat ASSISTANT: a cat", tokenizer::TextPlace::kWithin));
  EXPECT_THAT(std::vector<int64_t>(seen.tokens.end() - static_cast<int64_t>(rest.size()), seen.tokens.end()),
              ElementsAreArray(rest));
}

TEST(ChatWithSentencePiece, WhatFollowsAPictureStandsWhereItsTokenizerSays) {
  const tests::FilesFolder folder, saved;
  folder.write("tokenizer.model", tests::trained_sentence_piece());
  tokenizer::load_tokenizer(folder.path())->save(saved.path());
  auto form = nlohmann::json::parse(tests::read_all(saved / "tokenizer.json"));
  form["normalizer"] = nullptr;
  form["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
  for (const bool goes_on : {false, true}) {
    if (goes_on) folder.write("tokenizer.json", form.dump());  // the form of `legacy: false`
    const tokenizer::TokenizerPtr tokenizer = tokenizer::load_tokenizer(folder.path());
    const tokenizer::TextPlace place = goes_on ? tokenizer::TextPlace::kWithin : tokenizer::TextPlace::kStart;
    const auto ends_with = [&](const char* style, const Conversation& conversation, const std::string& text) {
      const auto tokens = sequence_of(Chat(style, tokenizer, 1000), conversation).tokens;
      const auto picture = std::find(tokens.rbegin(), tokens.rend(), ChatTokens::kPatch).base();
      const auto expected = tokenizer->encode(text, tokenizer::SpecialTokens::kAsText, place);
      EXPECT_THAT(std::vector<int64_t>(picture, tokens.end()), ElementsAreArray(expected)) << style << text;
    };
    ends_with("plain", {"c", {"p.png"}, {{"user", "<image>"}, {"assistant", "a cat"}}}, "a cat");
    ends_with("vicuna", {"c", {"p.png"}, {{"user", "the <image>"}, {"assistant", "a cat"}}},
              " ASSISTANT: a cat");
    ends_with("vicuna", {"c", {"p.png"}, {{"user", "<image>the"}, {"assistant", "a cat"}}},
              "the ASSISTANT: a cat");
  }
}

TEST_F(ChatTest, ChatmlEndsEveryTurnWithANewLine) {
  tokenizer::BpeTrainer trainer;
  trainer.add("x");
  const tests::FilesFolder folder;
  trainer.train({.vocab_size = 257, .on_token = nullptr}).save(folder.path());
  auto form = nlohmann::json::parse(tests::read_all(folder / "tokenizer.json"));
  for (const auto& [id, token] : {std::pair(257, "<|im_start|>"), {258, "<|im_end|>"}})
    form["added_tokens"].push_back({{"id", id}, {"content", token}, {"special", true}});
  folder.write("tokenizer.json", form.dump());
  const tokenizer::TokenizerPtr tokenizer = tokenizer::load_tokenizer(folder.path());
  const Chat chat("chatml", tokenizer, 1000);
  const auto text_of = [&](std::vector<int64_t> tokens) {
    std::replace(tokens.begin(), tokens.end(), ChatTokens::kPatch, int64_t{'#' - '!'});
    return tokenizer->decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
  };
  const std::string asked =
      "<|im_start|>user\n###\nQ<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n<|im_start|>user\nR<|im_end|"
      ">\n"
      "<|im_start|>assistant\n";
  EXPECT_EQ(text_of(sequence_of(chat, two_).tokens), asked + "no") << "and an end, which is a target alone";
  EXPECT_EQ(text_of(chat.prompt(two_, 1, 10, pictures_of(two_))), asked);
}

}  // namespace
}  // namespace pipeline::tasks::vlm
