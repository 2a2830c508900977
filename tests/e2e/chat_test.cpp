// The chat task as a user runs it, on a few conversations, with a model of a few thousand parameters.
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kConfig =
    reproducible_run("chat") + R"(data = { train = "train.jsonl", val = "val.jsonl", test = "val.jsonl" }
language = { architecture = "qwen3", hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 160 }
tokenizer.vocab_size = 300
chat.max_tokens = 120
generate = { max_tokens = 6, validate_samples = 4 }
)";

class Chat : public testing::Test, public Job {
 protected:
  Chat() {
    write_text(path("train.toml"), kConfig + kShortTraining);
    write_text(path("train.jsonl"), conversations(0, 40));
    write_text(path("val.jsonl"), conversations(100, 8));
  }
  // Conversations of one or two questions, some with a system turn.
  static std::string conversations(int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      nlohmann::ordered_json messages = nlohmann::ordered_json::array();
      const auto add = [&](const char* role, const std::string& content) {
        messages.push_back({{"role", role}, {"content", content}});
      };
      if (i % 3 == 0) add("system", "Be brief.");
      for (int k = 0; k <= i % 2; ++k) {
        add("user", "What follows " + std::to_string(i + k) + "?");
        add("assistant", std::to_string(i + k + 1));
      }
      text += nlohmann::ordered_json{{"id", "c" + std::to_string(i)}, {"messages", messages}}.dump() + "\n";
    }
    return text;
  }
};

TEST_F(Chat, TrainsEvaluatesPredictsTalksAndExports) {
  const Result run = call("run", {"evaluate.at_start=true"}).ended(0);
  EXPECT_THAT(run.out, HasSubstr("evaluation before training:  loss "));
  EXPECT_EQ(read_json_lines(path("run/eval.jsonl")).front()["step"], 0);
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("40 training, 8 validation, 8 test conversations"), HasSubstr("written: ")));
  EXPECT_EQ(read_lines(path("run/metrics.jsonl")).size(), 12u);
  size_t kept = 0;  // tokens of the three splits
  for (const auto& entry : fs::directory_iterator(path("cache")))
    kept += entry.path().extension() == ".tokens";
  EXPECT_EQ(kept, 3u);
  const auto figures = read_json_lines(path("run/eval.jsonl")).back();
  EXPECT_TRUE(figures.contains("exact") && figures.contains("f1"));

  call("evaluate", {"--split", "test"}).ended(0);
  EXPECT_THAT(read_text(path("run/evaluation-test-files/answers.html")), HasSubstr("What follows 100?"));
  call("predict").ended(0);
  EXPECT_THAT(read_lines(path("run/submission.csv")), testing::SizeIs(9));
  call("predict", {"--prompt", "What follows 7?", "--system", "Be brief."}).ended(0);
  EXPECT_THAT(read_lines(path("run/asked.csv")).at(1), testing::StartsWith("prompt,What follows 7?,"));
  call("predict", {"--show", "mask", "--output", "mask.csv"}).ended(0);
  EXPECT_THAT(
      read_text(path("mask.csv")),
      HasSubstr("question: What follows 101?\nanswer:⟦ 102<|endoftext|>⟧question: What follows 102?\n"));

  // What a checkpoint brings needs neither the files that it was trained on nor the template's name.
  call("export", {"--output", "exported"}).ended(0);
  EXPECT_THAT(read_text(path("exported/chat_template.jinja")), HasSubstr("question: "));
  fs::rename(path("train.jsonl"), path("gone.jsonl"));
  fs::remove_all(path("cache"));
  pipeline({"predict", "exported", "run.device=cpu", "task.generate.max_tokens=6", "task.chat.max_tokens=120",
            "--prompt", "What follows 7?", "--system", "Be brief.", "--output", "a.csv"})
      .ended(0);
  EXPECT_EQ(read_text(path("a.csv")), read_text(path("run/asked.csv")));
  call("evaluate", {"--checkpoint", "exported", "--output", "of-folder.json"}).ended(0);
}

TEST_F(Chat, HasTheSameBitsUnderEveryStrategyAndAfterAKill) { expect_the_same_run_everywhere(*this); }

TEST_F(Chat, UnusableInputIsNamed) {
  write_text(
      path("val.jsonl"),
      conversations(100, 2) +
          R"({"messages":[{"role":"critic","content":"c"},{"role":"assistant","content":"a"}]})"
          "\n"
          R"({"messages":[{"role":"user","content":"q"}]})"
          "\n"
          R"({"image":"a.png","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]})"
          "\n");
  const Result run = call("run", {"train.max_steps=1"}).ended(0);
  EXPECT_THAT(run.err + run.out,
              AllOf(HasSubstr("3 of 5 records of val.jsonl are not used:"),
                    HasSubstr("1: a turn of \"critic\", must be \"user\" or"),
                    HasSubstr("1: no turn of the assistant; the first is record 4, line 4"),
                    HasSubstr("1: a picture, which this task does not see: the task vlm does")));

  const auto error_of = [&](const Words& sets) { return call("run", sets).ended(2).err; };
  EXPECT_THAT(error_of({"run.dir=a", "task.chat.template=chat.jinj"}),
              HasSubstr("a template is auto, plain, simple, vicuna, chatml, llama3, or a file"));
  EXPECT_EQ(call("check", {"run.dir=a", "task.chat.template=chat.jinj"}).err,
            error_of({"run.dir=a", "task.chat.template=chat.jinj"}));
  EXPECT_THAT(error_of({"run.dir=b", "task.chat.template=chatml"}),
              HasSubstr("needs the special token <|im_start|>, which this tokenizer does not have"));
  write_text(path("bad.jinja"), "{% for m in messages %}\n{{ m.content | shout }}{% endfor %}");
  EXPECT_THAT(error_of({"run.dir=c", "task.chat.template=bad.jinja"}),
              HasSubstr("bad.jinja, line 2 of its chat template: the filter shout is not read here"));
  EXPECT_THAT(error_of({"run.dir=d", "task.chat.date=tomorrow"}),
              HasSubstr("must be a date such as 2024-07-26"));
  EXPECT_THAT(error_of({"run.dir=e", "task.data.train=none.jsonl"}), HasSubstr("none.jsonl"));
  // A template may refuse conversations: these records are counted, with the template's words.
  write_text(path("strict.jinja"),
             "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system turns') }}{% "
             "endif %}{{ m.content }}{{ eos_token if m.role == 'assistant' }}{% endfor %}");
  const Result strict =
      call("run", {"run.dir=f", "task.chat.template=strict.jinja", "train.max_steps=1"}).ended(0);
  EXPECT_THAT(strict.err + strict.out, AllOf(HasSubstr("14 of 40 records of train.jsonl are not used:"),
                                             HasSubstr("it refuses the conversation: no system turns")));
}

// Nothing can be computed of these weights, greedily and otherwise.
TEST_F(Chat, ARuinedModelGivesNoAnswers) {
  call("run", {"optimizer.kind=sgd", "optimizer.lr=1e20", "train.max_steps=1", "evaluate.every=0",
               "evaluate.at_end=false"})
      .ended(0);
  for (const char* method : {"greedy", "sample", "beam"}) {
    EXPECT_THAT(call("predict", {std::string("task.generate.method=") + method}).ended(2).err,
                HasSubstr("sample \"c100\": answer is nan, must be a number"))
        << method;
  }
  EXPECT_THAT(call("evaluate").ended(2).err, HasSubstr("loss is nan, must be a number"));
}

}  // namespace
}  // namespace pipeline::tests
