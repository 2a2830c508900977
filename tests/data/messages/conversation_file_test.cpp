// Conversations in the forms that people have them in. Those about pictures: tests/tasks/vlm.
#include "plugins/data/messages/conversation_file.hpp"

#include <filesystem>

#include <gmock/gmock.h>

#include "tests/support/test_files.hpp"

namespace pipeline::messages {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Messages : public testing::Test {
 protected:
  std::vector<Conversation> read(const std::string& name, const std::string& text,
                                 const TextOptions& options = {}) {
    const sources::SourceFiles source = sources::find(folder_.write(name, text));
    std::vector<Conversation> all;
    report_ = {};
    Collector collector([](const Conversation&) { return ""; },
                        [&](Conversation&& c) { all.push_back(std::move(c)); }, report_, 2);
    read_texts(source, options, collector, {});
    report_.require_used(source.named);
    return all;
  }
  // "role: text" of each turn.
  std::vector<std::string> turns(const std::string& record, const TextOptions& options = {}) {
    std::vector<std::string> all;
    const auto conversations = read("a.jsonl", record + "\n", options);
    for (const Turn& turn : conversations.at(0).turns) all.push_back(turn.role + ": " + turn.text);
    return all;
  }
  // Why a record is not used.
  std::string reason(const std::string& record) {
    EXPECT_EQ(read("a.jsonl", "{\"text\": \"t\"}\n" + record + "\n").size(), 1u) << record;
    return report_.drops.empty() ? "" : report_.drops.begin()->first;
  }
  std::string problem(const std::string& name, const std::string& text) {
    return tests::message_of<DataError>([&] { read(name, text); }, "");
  }

  tests::FilesFolder folder_;
  ReadReport report_;
};

TEST_F(Messages, OfTablesOfOneSourceAreReadAlike) {
  std::filesystem::create_directory(folder_ / "tables");
  folder_.write("tables/1.csv", "prompt,completion\na,b\n");
  folder_.write("tables/2.csv", "system,prompt,completion\ns,c,d\n");
  const sources::SourceFiles source = sources::find(folder_ / "tables");
  Collector collector([](const Conversation&) { return ""; }, [](Conversation&&) {}, report_, 1);
  EXPECT_THAT(tests::message_of<DataError>([&] { read_texts(source, {}, collector, {}); }),
              HasSubstr("2.csv: its header is read in another way than that of "));
}

TEST_F(Messages, OfOpenAIsForm) {
  const std::string record =
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},)"
      R"({"type":"text","text":"b"}],"name":"Ann"},{"role":"assistant","content":"c","weight":0},)"
      R"({"role":"tool","content":"t"},{"role":"developer","content":"d"}]})";
  EXPECT_THAT(turns(record), ElementsAre("system: s", "user: ab", "assistant: c", "tool: t", "developer: d"));
  const Conversation one = read("a.jsonl", record).at(0);
  EXPECT_EQ(one.turns[1].more, R"({"name":"Ann"})");
  EXPECT_FALSE(one.turns[2].is_learnt);
  EXPECT_EQ(
      one.variables().dump(),
      R"({"messages":[{"role":"system","content":"s"},{"role":"user",)"
      R"("content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"Ann"},)"
      R"({"role":"assistant","content":"c"},{"role":"tool","content":"t"},{"role":"developer","content":"d"}]})");
  EXPECT_EQ(Conversation::unpack(one.pack()).variables(), one.variables());
  EXPECT_FALSE(Conversation::unpack(one.pack()).turns[2].is_learnt);
}

TEST_F(Messages, WithToolsAndCalls) {
  const Conversation one =
      read("a.jsonl", R"({"tools":"[{\"name\":\"f\"}]","chat_template_kwargs":{"enable_thinking":false},)"
                      R"("messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,)"
                      R"("tool_calls":[{"b":1,"a":2}],"refusal":null}]})")
          .at(0);
  EXPECT_EQ(one.more, R"({"tools":[{"name":"f"}],"enable_thinking":false})");
  EXPECT_EQ(one.turns[1].text, "");
  EXPECT_EQ(one.turns[1].more, R"({"tool_calls":[{"b":1,"a":2}]})") << "in their order, and without nulls";
}

TEST_F(Messages, OfShareGptsForm) {
  EXPECT_THAT(
      turns(R"({"system":"s","conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"},)"
            R"({"from":"observation","value":"o"},{"from":"function_call","value":"f"}]})"),
      ElementsAre("system: s", "user: q", "assistant: a", "tool: o", "assistant: f"));
}

TEST_F(Messages, WithTextsUnderKnownNames) {
  EXPECT_THAT(turns(R"({"prompt":"p","completion":"c"})"), ElementsAre("user: p", "assistant: c"));
  EXPECT_THAT(
      turns(
          R"({"prompt":[{"role":"user","content":"p"}],"completion":[{"role":"assistant","content":"c"}]})"),
      ElementsAre("user: p", "assistant: c"));
  EXPECT_THAT(turns(R"({"instruction":"i","input":"x","output":"o","system":"s","history":[["q","a"]]})"),
              ElementsAre("system: s", "user: q", "assistant: a", "user: i\n\nx", "assistant: o"));
  EXPECT_THAT(turns(R"({"instruction":"i","input":"","output":"o"})"),
              ElementsAre("user: i", "assistant: o"));
  EXPECT_THAT(turns(R"({"instruction":"i","context":"x","response":"o","category":"qa"})"),
              ElementsAre("user: i\n\nx", "assistant: o"));
  EXPECT_THAT(turns(R"({"question":"q","answer":"a"})"), ElementsAre("user: q", "assistant: a"));
  EXPECT_THAT(turns(R"({"prompt":"alone"})"), ElementsAre("user: alone"));
  EXPECT_THAT(turns(R"({"text":"t"})"), ElementsAre("text: t"));
  EXPECT_THAT(turns(R"({"id":7,"a":"q","b":"x","prompt":"p"})", {.columns = {"a", "b", ""}}),
              ElementsAre("user: q", "assistant: x"));
  EXPECT_THAT(turns(R"({"body":"t"})", {.columns = {"body", "", ""}}), ElementsAre("text: t"));
}

// Unused columns are told once a source, with what those mean that others learn from.
TEST_F(Messages, ColumnsThatAreNotUsedAreNamed) {
  const auto notes = [&](const std::string& name, const std::string& text, const TextOptions& options = {}) {
    read(name, text, options);
    const size_t path = report_.notes.find(name);
    return path == std::string::npos ? report_.notes : report_.notes.substr(path);
  };
  EXPECT_EQ(notes("a.jsonl", "{\"text\":\"t\",\"label\":1}\n{\"text\":\"t\",\"label\":0}\n"),
            "a.jsonl: its column \"label\" is not used: \"label\" is not learnt, only the text\n");
  EXPECT_THAT(notes("b.csv", "prompt,completion,label\np,c,true\n"),
              HasSubstr("b.csv: its column \"label\" is not used: where \"label\" says which answers are "
                        "wanted (unpaired preference, as KTO takes it), all are learnt alike"));
  EXPECT_THAT(notes("c.jsonl", R"({"prompt":"p","completion":"x","chosen":"c","rejected":"r","n":1})"
                               "\n"),
              AllOf(HasSubstr("its columns \"chosen\", \"rejected\", \"n\" are not used"),
                    HasSubstr("name \"chosen\" by task.data.answer_column")));
  EXPECT_THAT(
      notes("d.jsonl", R"({"messages":[{"role":"user","content":"q"}],"prompt":"p","id":1,"tools":[]})"
                       "\n"),
      HasSubstr("its column \"prompt\" is not used"));
  EXPECT_EQ(notes("e.jsonl", R"({"id":1,"prompt":"p","completion":"c","system":"s","history":[]})"
                             "\n"),
            "");
  EXPECT_THAT(notes("g.jsonl", R"({"prompt":"p","completion":"nan"})"
                               "\n"
                               R"({"prompt":"None","completion":"c"})"
                               "\n"),
              HasSubstr("g.jsonl: 2 texts are \"nan\", \"None\" or the like"));
  EXPECT_THAT(notes("h.csv", "prompt,completion\np,NaN\n"), HasSubstr("h.csv: 1 text is \"nan\""));
  EXPECT_EQ(notes("f.jsonl", "{\"text\":\"t\",\"label\":1}\n", {.answer_required = false}), "")
      << "of what is only predicted nothing is learnt";
}

TEST_F(Messages, InTables) {
  const auto table = read("a.csv", "id,instruction,input,output\nx,i,\"1, 2\",o\ny,j,,p\n");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0].id, "x");
  EXPECT_EQ(table[0].turns[0].text, "i\n\n1, 2");
  EXPECT_EQ(table[1].turns[0].text, "j");
  EXPECT_EQ(table[1].turns[1].text, "p");
  EXPECT_EQ(read("a.tsv", "question\tanswer\nq\ta\n").at(0).turns.at(1).text, "a");
  EXPECT_EQ(read("b.csv", "prompt;completion\nq;a\n").at(0).turns.at(1).text, "a");
  EXPECT_EQ(read("c.csv", "text\nabc\n").at(0).turns.at(0).role, "text");
  EXPECT_EQ(
      read("d.csv", "Frage,Antwort\nq,a\n", {.columns = {"Frage", "Antwort", ""}}).at(0).turns.at(1).text,
      "a");
  EXPECT_THAT(
      problem("e.csv", "frage,antwort\nq,a\n"),
      AllOf(HasSubstr("its header has the columns \"frage\", \"antwort\", must have prompt and completion"),
            HasSubstr("or text: name yours by task.data.question_column and answer_column")));
}

TEST_F(Messages, ATableMayHaveSystemTurns) {
  const auto table = read("a.csv", "system,question,answer\ns,q,a\n,q,a\n");
  EXPECT_EQ(table.at(0).turns.at(0).role, "system");
  EXPECT_EQ(table.at(0).turns.at(0).text, "s");
  EXPECT_EQ(table.at(1).turns.size(), 2u);
  EXPECT_EQ(report_.notes, "");
  read("b.csv", "system,instruction,input,output,tools\ns,q,x,a,t\n");
  EXPECT_THAT(report_.notes, HasSubstr("its column \"system\" is read in JSON alone"));
}

TEST_F(Messages, ThatCannotBeUsedAreNamed) {
  EXPECT_EQ(
      reason(R"({"messages":[{"role":"critic","content":"c"}]})"),
      R"(a turn of "critic", must be "user" or "human", "assistant" or "gpt", "system", "developer" or "tool")");
  EXPECT_EQ(reason(R"({"messages":[{"role":"user"}]})"), "a turn without \"content\"");
  EXPECT_EQ(reason(R"({"messages":[{"content":"q"}]})"), "a turn without \"role\"");
  EXPECT_EQ(reason(R"({"messages":[{"role":"user","content":[{"type":"audio"}]}]})"),
            R"(a part of the type "audio", must be "text" or "image")");
  EXPECT_EQ(reason(R"({"messages":[{"role":"user","content":"q","weight":0.5}]})"),
            "\"weight\" is 0.5, must be 0 or 1");
  EXPECT_EQ(reason(R"({"messages":[],"tools":{"a":1}})"), "\"tools\" must be a list of objects");
  EXPECT_THAT(reason(R"({"frage":"q"})"), HasSubstr("neither \"messages\" nor prompt and completion, "));
  EXPECT_EQ(reason(R"({"prompt":7,"completion":"c"})"), "\"prompt\" is a number, must be text");
  EXPECT_EQ(reason(R"({"instruction":"i","output":"o","history":["q"]})"),
            "\"history\" must be a list of pairs of texts");
}

}  // namespace
}  // namespace pipeline::messages
