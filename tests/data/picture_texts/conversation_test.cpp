// Reading captions and conversations, and keeping them.
#include "plugins/data/picture_texts/conversation.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "plugins/data/picture_texts/pictures.hpp"
#include "tests/data/picture_texts/conversations.hpp"

namespace pipeline::picture_texts {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Conversations, AreReadInLlavasFormat) {
  const auto all = read("a.json", R"([
    {"id": "x", "image": "p/1.jpg", "model": "unused", "conversations": [
      {"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A \"cat\" 🐈."},
      {"from": "human", "value": "Sure?"}, {"from": "gpt", "value": "Yes."}]},
    {"id": 7, "conversations": [{"from": "user", "value": "Hi"}, {"from": "assistant", "value": "Ho"}]},
    {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "image": null}])");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].id, "x");
  EXPECT_THAT(all[0].images, ElementsAre("p/1.jpg"));
  ASSERT_EQ(all[0].turns.size(), 4u);
  EXPECT_EQ(all[0].turns[1].text, "A \"cat\" 🐈.");
  EXPECT_TRUE(all[0].turns[1].is_assistant() && !all[0].turns[2].is_assistant());
  EXPECT_EQ(all[1].id, "7");
  EXPECT_THAT(all[1].images, IsEmpty());
  EXPECT_EQ(all[2].id, "3") << "numbered where there is none";
  EXPECT_EQ(report_.table("a.json"), "");
}

// Other programs write a line each, messages with parts, a list of one picture.
TEST_F(Conversations, AreReadInOtherForms) {
  const auto lines =
      read("a.jsonl", R"({"image":["p.jpg"],"conversations":[{"from":"system","value":" "},)"
                      R"({"from":"human","value":"<image>\nWhat?"},{"from":"gpt","value":"red"}]})"
                      "\n"
                      R"({"images":["p.jpg"],"messages":[{"role":"user","content":"<image>\nWhat?"},)"
                      R"({"role":"assistant","content":"red"}]})"
                      "\n"
                      R"({"messages":[{"role":"user","content":[{"type":"image","image":"p.jpg"},)"
                      R"({"type":"text","text":"What?"}]},)"
                      R"({"role":"assistant","content":[{"type":"text","text":"red"}]}]})"
                      "\n");
  ASSERT_EQ(lines.size(), 3u) << report_.table("a.jsonl");
  for (const Conversation& one : lines) {
    EXPECT_THAT(one.images, ElementsAre("p.jpg"));
    ASSERT_EQ(one.turns.size(), 2u);
    EXPECT_EQ(one.turns[0].text, "<image>\nWhat?");
    EXPECT_EQ(one.turns[1].text, "red");
  }
  EXPECT_EQ(read("c.json", R"([{"image":"x.png","caption":"a list of captions"}])").at(0).turns.at(1).text,
            "a list of captions");
}

// What a part of text ends with is its own; the line after a picture is ours.
TEST_F(Conversations, PartsAreJoinedAsTheyAre) {
  const auto question = [&](const std::string& parts, const std::string& rest = "") {
    return R"({"messages":[{"role":"user","content":[)" + parts +
           R"(]},{"role":"assistant","content":[{"type":"text","text":"red\n"}]}])" + rest + "}";
  };
  const std::string picture = R"({"type":"image","image":"p.jpg"})",
                    text = R"({"type":"text","text":"What?\n"})", same = R"(,"image":"p.jpg")",
                    another = R"(,"image":"q.jpg")";
  const auto read_text = [&](const std::string& record) {
    return read("a.json", record).at(0).turns.at(0).text;
  };
  EXPECT_EQ(read_text(question(picture + "," + text)), "<image>\nWhat?\n");
  EXPECT_EQ(read_text(question(text + "," + picture)), "What?\n<image>");
  EXPECT_EQ(read_text(question(picture, same)), "<image>");
  EXPECT_EQ(read("a.json", question(picture)).at(0).turns.at(1).text, "red\n");
  EXPECT_EQ(reason(question(picture, another)), "more pictures than <image> in the text");
  EXPECT_EQ(reason(question("7")), "a part that is a number, must be an object");
}

TEST_F(Conversations, AKeyThatStandsTwiceIsNoChoice) {
  EXPECT_EQ(
      reason(R"({"conversations":[{"from":"human","value":"q","value":"p"},{"from":"gpt","value":"a"}]})"),
      "its JSON: key \"value\" stands twice in one object");
}

// A log has one line a thing, in UTF-8, whatever the data are.
TEST_F(Conversations, WordsOfTheDataAreQuotedInTheLog) {
  const std::string cut =
      R"({"conversations":[{"from":")" + std::string(39, 'x') + "\xc3\xa9" + R"(\nerror:","value":"q"}]})";
  EXPECT_EQ(
      reason(cut),
      "a turn of \"" + std::string(39, 'x') +
          R"(\u00e9\nerror:", must be "user" or "human", "assistant" or "gpt", "system", "developer" or "tool")");
}

TEST_F(Conversations, OnePictureIsInOnePartHoweverItIsNamed) {
  const auto content = [&](const std::string& image) {
    return shared_contents({.id = {}, .images = {image}, .turns = {}}, "/data/p").front();
  };
  for (const char* name :
       {"a.jpg", "./a.jpg", "x/../a.jpg", ".//a.jpg", "/data/p/a.jpg", "/data//q/../p/./a.jpg"})
    EXPECT_EQ(content(name), "a.jpg") << name;
  EXPECT_EQ(content("../a.jpg"), "../a.jpg");
  EXPECT_THAT(shared_contents({.id = {}, .images = {}, .turns = {{"user", "./q"}}}, ""), ElementsAre("./q"));
  EXPECT_THAT(shared_contents({.id = {}, .images = {"b.jpg", "./a.jpg"}, .turns = {}}, ""),
              ElementsAre("b.jpg", "a.jpg"));
}

TEST_F(Conversations, ThatCannotBeUsedAreNamed) {
  const auto turns = [](const std::string& list) { return R"({"conversations":[)" + list + "]}"; };
  const std::string human = R"({"from":"human","value":"q"})", gpt = R"({"from":"gpt","value":"a"})",
                    marked = R"({"from":"human","value":"<image> q"})";
  EXPECT_EQ(reason(turns("")), "no turns");
  EXPECT_EQ(reason(turns(human)), "no answer to the last question");
  EXPECT_EQ(reason(turns(gpt + "," + human)), "turns that do not alternate, beginning with the user's");
  EXPECT_EQ(reason(turns(human + R"(,{"from":"gpt","value":""})")), "an answer that is empty");
  EXPECT_EQ(reason(turns(marked + "," + gpt)), "<image> in the text, and no picture");
  EXPECT_EQ(reason(R"({"image":"a.png","conversations":[)" + human + "," + gpt + "]}"),
            "a picture, and no <image> in the text");
  EXPECT_EQ(
      reason(R"({"image":"a.png","conversations":[)" + marked + "," + gpt + "," + marked + "," + gpt + "]}"),
      "more <image> in the text than pictures");
  const std::string system = R"({"from":"system","value":"a"},)";
  EXPECT_THAT(reason(turns(system + human + "," + gpt)),
              HasSubstr("a system turn, for which task.chat.template has no place"));
  EXPECT_EQ(
      reason(turns(human + R"(,{"from":"bot","value":"a"})")),
      R"(a turn of "bot", must be "user" or "human", "assistant" or "gpt", "system", "developer" or "tool")");
  EXPECT_EQ(reason(turns(human + R"(,{"from":"gpt","value":7})")), "\"value\" is a number, must be text");
  EXPECT_EQ(reason(turns(human + R"(,{"value":"a"})")), "a turn without \"role\"");
  EXPECT_EQ(reason(turns("7")), "a turn that is a number, must be an object");
  const std::string rest = R"(,"conversations":[)" + marked + "," + gpt + "]}";
  EXPECT_EQ(reason(R"({"id":[[1]])" + rest), "\"id\" is a list, must be text or a number");
  EXPECT_EQ(reason(R"({"image":[["a.png"]])" + rest), "\"image\" is a list, must be a picture's path");
  EXPECT_EQ(reason(R"({"image":["a.png","b.png"])" + rest), "more pictures than <image> in the text");
  EXPECT_EQ(reason(R"({"image":["a.png",{"bytes":null,"path":null}])" + rest),
            "a picture of \"image\" has neither bytes nor a path");
  EXPECT_EQ(reason(R"({"image":{"byte":""})" + rest), "\"image\" is an object, must be a picture's path");
  EXPECT_EQ(reason(R"({"image":"https://example.org/a.png")" + rest),
            "the picture is a web address: download it, and name the file");
  EXPECT_EQ(reason(R"({"texts":[]})"),
            "no \"image\", and no list of turns as \"conversations\" or \"messages\"");
  EXPECT_EQ(reason("3"), "a number, must be an object with \"conversations\"");
  EXPECT_EQ(reason(R"({"conversations":NaN})"), "not JSON in UTF-8");
  EXPECT_EQ(report_.drops.begin()->second.first,
            "record 2, line 1: NaN, which JSON does not have: write null or leave the field out");
  EXPECT_EQ(report_.table("a.json"),
            "1 of 2 records of a.json are not used:\n  1: " + report_.drops.begin()->first +
                "; the first is " + report_.drops.begin()->second.first);
}

TEST_F(Conversations, MayNamePicturesByTheirWholePath) {
  folder_.write("a.png", images::encode_png({1, 1, {255, 0, 0}}));
  std::string warning;
  Pictures::Options options;
  options.folder = folder_.path();
  options.tiles.square.size = 1;
  options.most_broken = 3;
  options.warn = [&](const std::string& line) { warning = line; };
  const Pictures pictures(options);
  EXPECT_TRUE(pictures.load("a.png"));
  EXPECT_TRUE(pictures.load(folder_ / "a.png")) << warning;
  for (const std::string& outside :
       {folder_.path() + ".png", folder_ / "../a.png", std::string("../a.png")}) {
    warning.clear();
    EXPECT_FALSE(pictures.load(outside)) << outside;
    EXPECT_THAT(warning, HasSubstr("leads out of the pictures' folder")) << outside;
  }
}

TEST_F(Conversations, AFileThatIsNoneIsAnError) {
  for (const auto& [text, problem] : {std::pair("{}", "no \"image\""),
                                      {"[1, ", "a number, must be an object"},
                                      {"[]", "no records"},
                                      {R"([{"conversations":[]}])", "none of its 1 records can be used"},
                                      {"", "the file is empty"}}) {
    try {
      read("b.json", text);
      FAIL() << text << " was read";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(problem)) << text;
    }
  }
}

TEST_F(Conversations, CaptionsAreAnswersToAPictureAlone) {
  const auto all = read("c.csv", "image,caption\na.png,\"one, two\"\nb.png,three\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[0].images, ElementsAre("a.png"));
  EXPECT_EQ(all[0].turns.at(0).text, "<image>");
  EXPECT_EQ(all[0].turns.at(1).text, "one, two");
  CaptionColumns columns;
  columns.answer_required = false;
  EXPECT_EQ(read("d.jsonl",
                 R"({"id":"k","image":"x.png"})"
                 "\n",
                 columns)
                .at(0)
                .turns.size(),
            1u);
}

// Answers as VQA's annotations have them, and several captions; what several people wrote scores.
TEST_F(Conversations, SeveralPeopleMayHaveAnswered) {
  CaptionColumns columns;
  columns.caption = "captions";
  const auto all = read("v.jsonl",
                        R"({"image":"x.png","question":"What?","answers":[{"answer":"nets","answer_id":1},)"
                        R"({"answer":"net"},{"answer":"net"},{"answer":" "}]})"
                        "\n"
                        R"({"image":"y.png","captions":["a dog","one dog"]})"
                        "\n"
                        R"({"image":"z.png","question":"Which?","captions":"red","answers":["blue","red"]})"
                        "\n"
                        R"({"image":"z.png","captions":["alone"],"answers":null})"
                        "\n"
                        R"({"image":"z.png","question":"Which?","captions":"crimson","answers":["red"]})"
                        "\n"
                        R"({"image":"z.png","captions":[7]})"
                        "\n",
                        columns);
  ASSERT_EQ(all.size(), 5u) << report_.table("v.jsonl");
  EXPECT_THAT(all[4].answers, ElementsAre("red")) << "what is learnt may be another";
  EXPECT_THAT(all[0].answers, ElementsAre("nets", "net", "net"));
  EXPECT_EQ(all[0].turns.at(1).text, "net") << "what most of them gave is learnt";
  EXPECT_THAT(all[1].answers, ElementsAre("a dog", "one dog"));
  EXPECT_EQ(all[1].turns.at(1).text, "a dog");
  EXPECT_THAT(all[2].answers, ElementsAre("blue", "red"));
  EXPECT_EQ(all[2].turns.at(1).text, "red");
  EXPECT_THAT(all[3].answers, IsEmpty()) << "one answer is the turn's";
  EXPECT_THAT(report_.table("v.jsonl"), HasSubstr("\"captions\" has a number in it, must have texts"));
  const Conversation again = Conversation::unpack(all[0].pack());
  EXPECT_EQ(again.answers, all[0].answers);
  EXPECT_EQ(again.turns.at(1).text, "net");

  columns.answers.clear();
  EXPECT_EQ(read("x.jsonl",
                 R"({"image":"y.png","captions":["a dog"]})"
                 "\n"
                 R"({"image":"y.png","captions":["a dog","one dog"]})"
                 "\n",
                 columns)
                .size(),
            1u);
  EXPECT_EQ(report_.drops.begin()->first, "several texts as \"captions\": each must be a record of its own");

  const auto turns = read("w.json", R"([{"image":"x.png","answers":["yes","no","yes"],"conversations":[
    {"from":"human","value":"<image>\nIs it?"},{"from":"gpt","value":"yes"}]}])");
  EXPECT_THAT(turns.at(0).answers, ElementsAre("yes", "no", "yes"));
}

TEST_F(Conversations, ARecordMayHaveAQuestionWhoseAnswerIsTheCaption) {
  CaptionColumns columns;
  columns.answer_required = false;
  const auto asked = read("q.jsonl",
                          R"({"image":"x.png","question":"What?"})"
                          "\n"
                          R"({"image":"y.png","question":"In <image>?","caption":"No."})"
                          "\n"
                          R"({"image":"z.png","question":null})"
                          "\n"
                          R"({"image":"z.png","question":7})"
                          "\n",
                          columns);
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].turns.at(0).text, "<image>\nWhat?");
  EXPECT_EQ(asked[0].turns.size(), 1u);
  EXPECT_EQ(asked[1].turns.at(0).text, "In <image>?");
  EXPECT_EQ(asked[1].turns.at(1).text, "No.");
  EXPECT_EQ(asked[2].turns.at(0).text, "<image>");
  EXPECT_THAT(report_.table("q.jsonl"),
              HasSubstr("1 of 4 records of q.jsonl are not used:\n"
                        "  1: \"question\" is a number, must be text; the first is record 4, line 4"));
  columns.caption = "a";
  columns.question = "q";
  columns.question = "a";
  EXPECT_EQ(read("c.csv", "image,a\nx.png,This.\n", columns).at(0).turns.at(0).text, "<image>")
      << "a column is one thing";
  columns.question = "q";
  const auto table = read("q.csv", "image,q,a\nx.png,What?,This.\n", columns);
  EXPECT_EQ(table.at(0).turns.at(0).text, "<image>\nWhat?");
  EXPECT_EQ(table.at(0).turns.at(1).text, "This.");
}

TEST_F(Conversations, AQuestionToBeAnsweredMayComeLast) {
  CaptionColumns columns;
  columns.answer_required = false;
  const auto all = read("e.json", R"([{"conversations":[{"from":"human","value":"q"}]}])", columns);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(last_question(all[0]), 0u);
}

// 0-1, 1-2, ... 5-6 hang together; so do 10-11, and 20 is alone: of any two that share a picture both are in
// one part, whatever is first in the file.
TEST_F(Conversations, SamplesThatShareAPictureAreInOnePart) {
  std::vector<std::pair<int, int>> pairs{{10, 11}, {20, 20}, {11, 10}};
  for (int i = 0; i < 6; ++i) pairs.emplace_back(i, i + 1);
  for (int i = 30; i < 60; i += 2) pairs.emplace_back(i, i + 1);
  std::vector<std::map<std::string, std::set<bool>>> seen;
  for (const bool reversed : {false, true}) {
    if (reversed) std::ranges::reverse(pairs);
    std::string text;
    for (const auto& [a, b] : pairs) {
      text += R"({"image":["p)" + std::to_string(a) + R"(.png")";
      if (b != a) text += R"(,"./p)" + std::to_string(b) + R"(.png")";
      text += R"(],"caption":"c"})"
              "\n";
    }
    const std::string path = folder_.write(reversed ? "b.jsonl" : "a.jsonl", text), cache = folder_ / "cache";
    std::map<std::string, std::set<bool>> parts;  // of each picture
    uint64_t count = 0;
    for (const bool is_validation : {false, true}) {
      const ConversationStore store(cache,
                                    source_of(sources::find_and_hash(path, cache, {}), {}, folder_.path()),
                                    {}, {.held_out = 0.5, .is_validation = is_validation});
      EXPECT_GT(store.size(), 0u);
      count += store.size();
      for (uint64_t i = 0; i < store.size(); ++i)
        for (const std::string& picture : shared_contents(store[i], folder_.path()))
          parts[picture].insert(is_validation);
    }
    EXPECT_EQ(count, pairs.size());
    for (const auto& [picture, of] : parts) EXPECT_EQ(of.size(), 1u) << picture;
    for (int i = 1; i <= 6; ++i) EXPECT_EQ(parts["p" + std::to_string(i) + ".png"], parts["p0.png"]) << i;
    seen.push_back(parts);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(Conversations, AreKeptAsTheyWere) {
  const std::string
      cache = folder_ / "cache",
      path = folder_.write(
          "a.json", R"([{"id":"x","image":"i.png","conversations":[{"from":"human","value":"<image>"},)"
                    R"({"from":"gpt","value":"a"}]},{"id":"y","conversations":[{"from":"human","value":"q"},)"
                    R"({"from":"gpt","value":"b"}]},{"id":"bad","conversations":[]}])");
  std::string fingerprint;
  for (int times = 0; times < 2; ++times) {  // made, then opened
    const ConversationStore store(cache, source_of(sources::find_and_hash(path, cache, {}), {}, {}), {});
    ASSERT_EQ(store.size(), 2u);
    EXPECT_THAT(store[0].images, ElementsAre("i.png"));
    EXPECT_EQ(store[1].id, "y");
    EXPECT_EQ(store[1].turns.at(1).text, "b");
    EXPECT_THAT(store.report(), HasSubstr("1: no turns"));
    if (times == 1) {
      EXPECT_EQ(store.fingerprint(), fingerprint);
    }
    fingerprint = store.fingerprint();
  }
  const ConversationStore training(cache, source_of(sources::find_and_hash(path, cache, {}), {}, {}), {},
                                   {.held_out = 0.5, .is_validation = false}),
      validation(cache, source_of(sources::find_and_hash(path, cache, {}), {}, {}), {},
                 {.held_out = 0.5, .is_validation = true});
  EXPECT_EQ(training.size() + validation.size(), 2u) << "each is in one part";
  folder_.write("a.json", R"([{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"c"}]}])");
  const ConversationStore changed(cache, source_of(sources::find_and_hash(path, cache, {}), {}, {}), {});
  EXPECT_EQ(changed.size(), 1u);
  EXPECT_NE(changed.fingerprint(), fingerprint);
}

}  // namespace
}  // namespace pipeline::picture_texts
