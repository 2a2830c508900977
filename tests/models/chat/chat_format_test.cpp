// What of a conversation's tokens the assistant has written. The tokens themselves are compared with
// transformers' by tests/parity/chat_format_parity.py.
#include "plugins/models/chat/chat_format.hpp"

#include <pipeline/error.hpp>

#include <gmock/gmock.h>

#include "plugins/models/tokenizer/bpe_trainer.hpp"
#include "plugins/models/tokenizer/byte_level_bpe.hpp"
#include "tests/support/processor_time.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::chat {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

tokenizer::TokenizerPtr tokenizer() {
  static const tokenizer::TokenizerPtr one = [] {
    tokenizer::BpeTrainer trainer;
    trainer.add("user: question assistant: answer");
    return std::make_shared<const tokenizer::ByteLevelBpe>(trainer.train({.vocab_size = 300}));
  }();
  return one;
}

ChatFormat format(const std::string& source) { return ChatFormat(source, "chat.jinja", tokenizer(), 0); }

ordered_json conversation(const std::vector<std::pair<std::string, std::string>>& messages) {
  ordered_json all = ordered_json::array();
  for (const auto& [role, content] : messages) all.push_back({{"role", role}, {"content", content}});
  return {{"messages", all}};
}

// The text of the answers, with "|" between parts that do not touch.
std::string learnt(const ChatTokens& chat) {
  std::string text;
  bool was_learnt = true;
  for (size_t i = 0; i < chat.tokens.size(); ++i) {
    const bool is_learnt = chat.answer_of[i] >= 0;
    if (is_learnt && !was_learnt && !text.empty()) text += "|";
    if (is_learnt) text += tokenizer()->decode_bytes({{static_cast<int32_t>(chat.tokens[i])}});
    was_learnt = is_learnt;
  }
  return text;
}

tokenizer::TokenizerPtr with_beginning(const std::string& bos) {
  return tokenizer()->with({{"tokenizer_config.json", R"({"bos_token": ")" + bos + "\"}"}});
}

// Stored conversations were dropped and cut as they were rendered then.
TEST(ChatFormat, TheKeyHasWhatRenderingsDependOn) {
  const std::string plain = "{{ bos_token }}{{ messages[0].content }}{{ messages[1].content }}";
  const std::string dated = plain + "{{ strftime_now('%d') }}";
  const auto key = [&](const std::string& source, std::time_t date, const std::string& bos) {
    return ChatFormat(source, "chat.jinja", with_beginning(bos), date).key();
  };
  EXPECT_EQ(key(plain, 0, "a"), key(plain, 86400, "a")) << "it tells no date";
  EXPECT_NE(key(dated, 0, "a"), key(dated, 86400, "a"));
  EXPECT_NE(key(plain, 0, "a"), key(plain, 0, "b"));
  EXPECT_NE(key(plain, 0, "a"), key(plain + " ", 0, "a"));
}

const ordered_json& two_answers() {
  static const ordered_json one =
      conversation({{"user", "a"}, {"assistant", " b "}, {"user", "b"}, {"assistant", "a"}});
  return one;
}

TEST(ChatFormat, AnAnswerIsWhatFollowsThePromptWithItsEnd) {
  EXPECT_EQ(learnt(format(named_template("simple", *tokenizer())).tokens(two_answers())),
            "  b <|endoftext|>| a<|endoftext|>");
  EXPECT_EQ(learnt(format("{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content | trim }}{% if m.role == "
                          "'assistant' %} {{ eos_token }}{% endif %}{% endfor %}")
                       .tokens(two_answers())),
            "<assistant>b <|endoftext|>|<assistant>a <|endoftext|>")
      << "a template whose prompt does not name the assistant: the model must";
}

// Qwen3's templates: thoughts stand in the last answer alone, which the model writes after the prompt.
TEST(ChatFormat, WhatTheTemplatePutsBeforeAnAnswerIsLearnt) {
  const ChatFormat thinks = format(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}(hm){% endif %}{{ "
      "m.content | trim }}{{ eos_token if m.role == 'assistant' }}{% endfor %}{% if add_generation_prompt "
      "%}<assistant>{% endif %}");
  EXPECT_EQ(learnt(thinks.tokens(two_answers())), "b<|endoftext|>|(hm)a<|endoftext|>");
}

// Mistral's templates: the prompt ends with the question.
TEST(ChatFormat, TheSpaceBetweenPromptAndAnswerIsLearnt) {
  const ChatFormat asks = format(
      "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% else %} {{ m.content | trim }}{{ "
      "eos_token }}{% endif %}{% endfor %}");
  EXPECT_EQ(learnt(asks.tokens(two_answers())), " b<|endoftext|>| a<|endoftext|>");
}

// transformers hands parts on; a template that knows texts alone, or would write the list down, gets a text.
TEST(ChatFormat, PartsOfAContentAreATemplatesToJoin) {
  const auto part = [](const char* text) { return ordered_json{{"type", "text"}, {"text", text}}; };
  const ordered_json parts{{"messages",
                            {{{"role", "user"}, {"content", {part("a"), part("b")}}},
                             {{"role", "assistant"}, {"content", {part("c"), part("d")}}}}}};
  const auto text_of = [&](const std::string& source) {
    const ChatFormat one = format(source);
    return one.answer_text(one.tokens(parts).tokens);
  };
  EXPECT_EQ(text_of("{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else "
                    "%}{% for p in m.content %}{{ ';' if not loop.first }}{{ p.text | trim }}{% endfor %}{% "
                    "endif %}{{ eos_token }}{% endfor %}"),
            "<user>a;b<|endoftext|><assistant>c;d<|endoftext|>");
  for (const char* content :
       {"m.content", "m.content | string", "m.content + ''", "m.content | tojson | replace('\"', '')"})
    EXPECT_EQ(text_of(std::string("{% for m in messages %}<{{ m.role }}>{{ ") + content +
                      " }}{{ eos_token }}{% endfor %}"),
              "<user>ab<|endoftext|><assistant>cd<|endoftext|>")
        << content;
  // This template knows a text for answers, and a list for questions.
  EXPECT_EQ(text_of("{% for m in messages %}<{{ m.role }}>{% if m.role == 'user' and m.content is not string "
                    "%}{{ m.content | map(attribute='text') | join('+') }}{% else %}{{ m.content }}{% endif "
                    "%}{{ eos_token }}{% endfor %}"),
            "<user>a+b<|endoftext|><assistant>cd<|endoftext|>");
}

TEST(ChatFormat, AMarkedAnswerIsWhatIsMarked) {
  const ChatFormat marked = format(
      "{% for m in messages %}{% if m.role == 'assistant' %}>{% generation %}{{ m.content | trim }}{% "
      "endgeneration %}{{ eos_token }}{% else %}{{ m.content }}{% endif %}{% endfor %}");
  EXPECT_EQ(learnt(marked.tokens(two_answers())), "b|a");
  EXPECT_FALSE(marked.learns_end());
}

TEST(ChatFormat, WhatNoTokenEndsIsEndedOnceByTheEndOfText) {
  const ChatFormat open =
      format("{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n\n{% endfor %}");
  EXPECT_FALSE(open.ends_answers());
  const ChatTokens chat = open.tokens(two_answers());
  EXPECT_EQ(learnt(chat), "assistant: b|assistant: a<|endoftext|>");
  EXPECT_EQ(chat.tokens.back(), tokenizer()->eot());
  EXPECT_TRUE(format(named_template("simple", *tokenizer())).ends_answers());
}

TEST(ChatFormat, WhatPeopleWriteIsNeverASpecialToken) {
  const ChatFormat simple = format(named_template("simple", *tokenizer()));
  const auto count = [&](const std::vector<int64_t>& tokens) {
    return std::ranges::count(tokens, tokenizer()->eot());
  };
  const ordered_json hostile = conversation({{"user", "<|endoftext|>"}, {"assistant", "x<|endoftext|>y"}});
  const ChatTokens chat = simple.tokens(hostile);
  EXPECT_EQ(count(chat.tokens), 2) << "the start and the end";
  EXPECT_EQ(learnt(chat), " x<|endoftext|>y<|endoftext|>");
  EXPECT_EQ(count(simple.prompt(conversation({{"user", "<|endoftext|><|endoftext|>"}}))), 1);
}

// The place does not matter: in calls and tools, under any key, and as a key.
TEST(ChatFormat, WhatPeopleWriteInCallsAndToolsIsNeverASpecialToken) {
  const std::string end = "<|endoftext|>";
  ordered_json hostile = conversation({{"user", "q"}, {"assistant", "a"}, {"tool", "t" + end}});
  hostile["messages"][0]["name"] = end;
  hostile["messages"][1]["tool_calls"] = {
      {{"type", "function" + end},
       {"function",
        {{"name", "f" + end},
         {"arguments", {{"role", end}, {"type", {end, {{"role", {{end, end}}}}}}, {"a" + end, 1}}}}}}};
  hostile["messages"][1][end] = end;
  hostile["messages"][2]["tool_call_id"] = end;
  hostile["tools"] = {
      {{"type", end}, {"function", {{"name", end}, {"parameters", {{end, {{"type", end}}}}}}}}};
  hostile["style"] = {{"role", end}};  // a variable of chat_template_kwargs
  const std::string kBody =
      "{{ style }}{{ tools | tojson }}{{ tools | tojson(ensure_ascii=true) }}{% for m in messages %}{{ "
      "m.role }}{{ m | tojson }}{{ m.tool_calls }}{{ m.content }}{{ eos_token if m.role == 'assistant' }}{% "
      "endfor %}";
  const ChatTokens chat = format(kBody).tokens(hostile);
  EXPECT_EQ(std::ranges::count(chat.tokens, tokenizer()->eot()), 1) << "the answer's end";
  const std::string answer = learnt(chat);
  EXPECT_THAT(answer, testing::EndsWith("}]a" + end)) << "it goes on to the template's own end";
  EXPECT_EQ(std::ranges::count(format(kBody).prompt(hostile), tokenizer()->eot()), 1);
  std::string all;
  for (const int64_t token : chat.tokens) all += tokenizer()->decode_bytes({{static_cast<int32_t>(token)}});
  EXPECT_THAT(all, HasSubstr("\"type\": \"" + end + "\"")) << "and is written as it was";
  EXPECT_EQ(all.find("\uFDD0"), std::string::npos);

  ordered_json parts = conversation({{"user", ""}});
  parts["messages"][0]["content"] = {{{"type", "text"}, {"text", "x"}, {"role", end}}};
  EXPECT_EQ(std::ranges::count(format("{{ messages | tojson }}").prompt(parts), tokenizer()->eot()), 0);
  parts["messages"][0]["content"][0]["text"] = "\uFDD0";
  EXPECT_THROW(format("{{ messages }}").prompt(parts), Error) << "what we mark with";
}

TEST(ChatFormat, APromptIsWhatTheAnswerFollows) {
  const ChatFormat simple = format(named_template("simple", *tokenizer()));
  EXPECT_EQ(simple.answer_text(simple.prompt(conversation({{"system", "s"}, {"user", "q"}}))),
            "<|endoftext|>s\nquestion: q\nanswer:");
}

// Some tokens take the white space behind them, of any script: the answer begins where they say.
TEST(ChatFormat, WhiteSpaceOfAllScriptsBehindATokenIsItsOwn) {
  tokenizer::BpeTrainer trainer;
  trainer.add("a");
  const tests::FilesFolder folder;
  trainer.train({.vocab_size = 257}).save(folder.path());
  auto form = ordered_json::parse(tests::read_all(folder / "tokenizer.json"));
  for (const auto& [id, token] : {std::pair(257, "<|end|>"), {258, "<|assistant|>"}})
    form["added_tokens"].push_back({{"id", id}, {"content", token}, {"special", true}, {"rstrip", true}});
  folder.write("tokenizer.json", form.dump());
  const tokenizer::TokenizerPtr takes = tokenizer::load_tokenizer(folder.path());
  const ChatFormat one(
      "{% for m in messages %}{{ m.content if m.role == 'user' else '<|assistant|>' + m.content + '<|end|>' "
      "}}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
      "chat.jinja", takes, 0);
  for (const char* space : {" ", "\t\n", "\u0085", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028", "\u202f",
                            "\u205f", "\u3000", "\u3000 \u00a0"}) {
    const std::string answer = std::string(space) + "b" + space + "c";
    const ChatTokens chat =
        one.tokens(conversation({{"user", "a"}, {"assistant", answer}, {"user", std::string(space) + "d"}}));
    std::vector<int64_t> expected;
    for (const int32_t id : takes->encode("a<|assistant|>" + answer + "<|end|>" + space + "d",
                                          tokenizer::SpecialTokens::kRecognize))
      expected.push_back(id);
    EXPECT_EQ(chat.tokens, expected) << answer;
    std::string learnt;
    for (size_t i = 0; i < chat.tokens.size(); ++i)
      if (chat.answer_of[i] >= 0) learnt += one.token_bytes(chat.tokens[i]);
    EXPECT_EQ(learnt, std::string("b") + space + "c<|end|>");
  }
}

// Qwen3's marks of thoughts are special tokens in an answer, and no more than letters in a question.
TEST(ChatFormat, WhatATemplateReadsInAnswersMayBeASpecialToken) {
  tokenizer::BpeTrainer trainer;
  trainer.add("a");
  const tests::FilesFolder folder;
  trainer.train({.vocab_size = 257}).save(folder.path());
  auto form = ordered_json::parse(tests::read_all(folder / "tokenizer.json"));
  for (const auto& [id, token] : {std::pair(257, "<think>"), {258, "</think>"}, {259, "<|im_end|>"}})
    form["added_tokens"].push_back({{"id", id}, {"content", token}, {"special", true}});
  folder.write("tokenizer.json", form.dump());
  const tokenizer::TokenizerPtr words = tokenizer::load_tokenizer(folder.path());
  const ChatFormat thinks(
      "{% for m in messages %}<{{ m.role }}>{% set c = m.content %}{% if '</think>' in c %}{% set c = "
      "c.split('</think>')[1] %}{% endif %}{% if m.role == 'assistant' %}{{ '<think>' + ('' if c == "
      "m.content else m.content.split('</think>')[0].split('<think>')[1]) + '</think>' }}{% endif %}{{ c "
      "}}{% if m.role == 'assistant' %}<|im_end|>{% endif %}{% endfor %}{% if add_generation_prompt "
      "%}<assistant>{% endif %}",
      "chat.jinja", words, 0);
  const auto text_of = [&](const std::string& question, const std::string& answer) {
    std::string text;
    for (const int64_t token :
         thinks.tokens(conversation({{"user", question}, {"assistant", answer}})).tokens)
      text += words->is_special(token) ? "[" + thinks.token_bytes(token) + "]" : thinks.token_bytes(token);
    return text;
  };
  EXPECT_EQ(text_of("q", "<think>h</think>a"), "<user>q<assistant>[<think>]h[</think>]a[<|im_end|>]");
  EXPECT_EQ(text_of("q", "a<|im_end|>"), "<user>q<assistant>[<think>][</think>]a<|im_end|>[<|im_end|>]");
  EXPECT_EQ(text_of("<think>q", "a"), "<user><think>q<assistant>[<think>][</think>]a[<|im_end|>]");
  // What the template puts before each answer is not part of what is said.
  const auto said = [&](const std::string& text) {
    std::vector<int64_t> tokens;
    for (const int32_t id : words->encode(text, tokenizer::SpecialTokens::kRecognize)) tokens.push_back(id);
    return thinks.answer_text(tokens);
  };
  EXPECT_EQ(said("<think></think>  a\n"), "  a\n");
  EXPECT_EQ(said("<think>h</think>a"), "<think>h</think>a");
}

// The folder's files name <end> as what ends a text, and have it as a word like others.
TEST(ChatFormat, AnEndTokenThatIsNoSpecialOneEndsAnAnswer) {
  tokenizer::BpeTrainer trainer;
  trainer.add("a");
  const tests::FilesFolder folder;
  trainer.train({.vocab_size = 257}).save(folder.path());
  auto form = ordered_json::parse(tests::read_all(folder / "tokenizer.json"));
  form["added_tokens"].push_back({{"id", 257}, {"content", "<end>"}, {"special", false}});
  folder.write("tokenizer.json", form.dump());
  folder.write("tokenizer_config.json", R"({"eos_token": "<end>"})");
  const tokenizer::TokenizerPtr words = tokenizer::load_tokenizer(folder.path());
  const ChatFormat ends("{% for m in messages %}{{ m.role }}:{{ m.content }}<end>{% endfor %}", "chat.jinja",
                        words, 0);
  EXPECT_EQ(ends.end_token(), 257);
  EXPECT_TRUE(ends.ends_answers());
  const ChatTokens chat = ends.tokens(conversation({{"user", "a<end>"}, {"assistant", "b<end>c"}}));
  EXPECT_EQ(std::ranges::count(chat.tokens, 257), 2) << "what the template writes";
}

// The end token is no added token, and merges make it of letters; transformers adds it.
// special_tokens_map.json names it, too, beside a configuration of before there was a list in there.
TEST(ChatFormat, AnEndTokenThatIsAWordEndsAnAnswer) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    tokenizer::BpeTrainer trainer;
    trainer.add("end end end");
    const tests::FilesFolder folder;
    trainer.train({.vocab_size = 259}).save(folder.path());
    folder.write("tokenizer_config.json", "{}");
    const int32_t end = tokenizer::load_tokenizer(folder.path())->encode("end").front();
    folder.write(file, R"({"eos_token": {"content": "end"}})");
    const tokenizer::TokenizerPtr words = tokenizer::load_tokenizer(folder.path());
    EXPECT_EQ(words->eot(), end) << file;
    EXPECT_EQ(words->vocab_size(), 259);
    EXPECT_EQ(tokenizer::tokenizer_of_state(words->state(), "state")->eot(), end);
    const ChatFormat ends("{% for m in messages %}{{ m.role }}:{{ m.content }}end{% endfor %}", "chat.jinja",
                          words, 0);
    EXPECT_EQ(ends.end_token(), end);
    const ChatTokens chat = ends.tokens(conversation({{"user", "an end"}, {"assistant", "end"}}));
    EXPECT_EQ(std::ranges::count(chat.tokens, end), 2) << "what the template writes";
  }
}

// An answer that calls a tool is its text and the calls.
TEST(ChatFormat, CallsAreLearntWithTheirAnswer) {
  const ChatFormat calls = format(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}[{{ "
      "c.function.name }}]{% endfor %}{{ eos_token if m.role == 'assistant' }}{% endfor %}{% if "
      "add_generation_prompt %}<assistant>{% endif %}");
  ordered_json asked = conversation({{"user", "a"}, {"assistant", ""}, {"tool", "t"}, {"assistant", "c"}});
  asked["messages"][1]["tool_calls"] = {{{"function", {{"name", "f"}}}}};
  EXPECT_EQ(learnt(calls.tokens(asked)), "[f]<|endoftext|>|c<|endoftext|>");
}

// Each answer by itself would take a rendering of the whole conversation.
TEST(ChatFormat, TheAnswersOfALongConversationAreFoundTogether) {
  std::vector<std::pair<std::string, std::string>> turns;
  std::string as_written, as_trimmed;
  for (int i = 0; i < 1000; ++i) {
    const std::string answer = i % 3 == 0 ? " b\n" : i % 3 == 1 ? "answer: q" : "a";
    turns.emplace_back("user", i % 2 == 0 ? "question: answer: a" : "q");
    turns.emplace_back("assistant", answer);
    as_written += (i == 0 ? " " : "| ") + answer + "<|endoftext|>";
    as_trimmed += (i == 0 ? "" : "|") + (i % 3 == 0 ? "b" : answer) + "<|endoftext|>";
  }
  const ChatFormat simple = format(named_template("simple", *tokenizer())),
                   trims = format(
                       "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ eos_token if m.role == "
                       "'assistant' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  EXPECT_LT(tests::processor_seconds([&] {
              EXPECT_EQ(learnt(simple.tokens(conversation(turns))), as_written);
              EXPECT_EQ(learnt(trims.tokens(conversation(turns))), as_trimmed);
            }),
            10);
  turns[1].second = "12";  // what is said decides what else is written: each answer is found by itself
  turns.resize(4);
  const ChatFormat counts = format(
      "{% for m in messages %}<{{ m.role }}>{{ '(short)' if m.content | length < 3 }}{{ m.content }}{{ "
      "eos_token if m.role == 'assistant' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif "
      "%}");
  EXPECT_EQ(learnt(counts.tokens(conversation(turns))), "(short)12<|endoftext|>|answer: q<|endoftext|>");
}

// Answers with calls are found by the turns of the template's loop, and are what each is by itself.
TEST(ChatFormat, TheCallsOfALongConversationAreFoundTogether) {
  const auto with_calls = [](int rounds) {
    ordered_json all = {{"messages", ordered_json::array()}};
    const auto add = [&](const char* role, const ordered_json& content) {
      all["messages"].push_back({{"role", role}, {"content", content}});
    };
    for (int i = 0; i < rounds; ++i) {
      const std::string number = std::to_string(i);
      add("user", "ASSISTANT: " + number + "?");
      add("assistant", i % 3 == 0 ? ordered_json() : ordered_json(i % 3 == 1 ? "" : "I look "));
      const ordered_json call = {{"function", {{"name", "f" + number}, {"arguments", {{"n", number}}}}}};
      all["messages"].back()["tool_calls"] = ordered_json::array({call});
      if (i % 5 == 0) all["messages"].back()["tool_calls"].push_back(call);
      add("tool", "result " + number);
      add("assistant", "It is " + number + ".");
    }
    return all;
  };
  const std::string calls =
      "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}({{ c.function.arguments | tojson "
      "}})</call>{% endfor %}";
  for (const std::string& source :
       {"{% for m in messages %}{% if m.role == 'assistant' %}ASSISTANT: {{ m.content or '' }}" + calls +
            "\n{% else %}{{ m.role | upper }}: {{ m.content }}\n{% endif %}{% endfor %}{% if "
            "add_generation_prompt %}ASSISTANT:{% endif %}",
        "{% for m in messages %}{{ '\n' if not loop.first }}{{ m.role }}: {{ (m.content or '') | trim }}" +
            calls + "{% endfor %}{% if add_generation_prompt %}{{ '\nassistant:' }}{% endif %}"}) {
    const ChatFormat tools = format(source);
    const ordered_json few = with_calls(12), some = with_calls(100), many = with_calls(400);
    // Each round by itself, in a conversation with too few of a kind to be found together.
    std::string each;
    for (size_t i = 0; i < few["messages"].size(); i += 4) {
      const ordered_json one = {
          {"messages",
           {few["messages"][i], few["messages"][i + 1], few["messages"][i + 2], few["messages"][i + 3]}}};
      each += (each.empty() ? "" : "|") + learnt(tools.tokens(one));
    }
    const auto without_ends = [](std::string text) {
      for (size_t at; (at = text.find("<|endoftext|>")) != text.npos;) text.erase(at, 13);
      return text;
    };
    EXPECT_EQ(without_ends(learnt(tools.tokens(few))), without_ends(each));
    EXPECT_THAT(each, HasSubstr("I look"));
    const auto seconds = [&](const ordered_json& one) {
      return tests::processor_seconds([&] { static_cast<void>(tools.tokens(one)); });
    };
    EXPECT_LT(seconds(many), 8 * seconds(some)) << "four times as many: 16 times, were each found by itself";
  }
}

TEST(ChatFormat, AMessageOfSpecialTokensTakesNoLongerThanOthers) {
  std::string many;
  for (int i = 0; i < 50000; ++i) many += "<|endoftext|>";
  const ChatFormat simple = format(named_template("simple", *tokenizer()));
  EXPECT_LT(tests::processor_seconds([&] {
              const ChatTokens chat = simple.tokens(conversation({{"user", many}, {"assistant", "a"}}));
              EXPECT_EQ(std::ranges::count(chat.tokens, tokenizer()->eot()), 2);
            }),
            10);
}

TEST(ChatFormat, WhatCannotBeToldIsAnErrorThatNamesTheMessage) {
  const ChatFormat counts =
      format("{% for m in messages %}{{ m.content }}{% endfor %}{{ messages[1].content | length }}");
  try {
    counts.tokens(two_answers());
    FAIL() << "was told";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("chat.jinja: what of its text message 2 is, cannot be told"));
  }
}

TEST(ChatFormat, TheTemplateOfAFolderIsFoundInItsForms) {
  const auto found = [](const tokenizer::Files& files) { return template_of(files); };
  EXPECT_EQ(found({}).first, "");
  EXPECT_EQ(found({{"tokenizer_config.json", R"({"chat_template": "a"})"}}).first, "a");
  EXPECT_EQ(found({{"tokenizer_config.json", R"({"chat_template": null})"}}).first, "");
  EXPECT_EQ(
      found(
          {{"tokenizer_config.json",
            R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})"}})
          .first,
      "d");
  EXPECT_EQ(
      found({{"tokenizer_config.json", R"({"chat_template": "a"})"}, {"chat_template.jinja", "b"}}).second,
      "chat_template.jinja");
  EXPECT_EQ(template_of(with_template(tokenizer(), "c")->files()).first, "c");
}

}  // namespace
}  // namespace pipeline::chat
