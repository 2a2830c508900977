// The preference task as a user runs it, with a model of a few thousand parameters.
#include <cmath>
#include <filesystem>
#include <numbers>

#include <gmock/gmock.h>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

const std::string kRun = reproducible_run("preference") + R"(chat.max_tokens = 64
generate.max_tokens = 6
)";
constexpr const char* kData =
    "[task.data]\ntrain = \"pairs.jsonl\"\nval = \"pairs.jsonl\"\ntest = \"pairs.jsonl\"\n";
constexpr const char* kSources = R"([[task.data.source]]
path = "pairs.jsonl"
name = "a"
weight = 2
[[task.data.source]]
path = "pairs.jsonl"
name = "b"
weight = 1
)";
constexpr const char* kLora = "task.language.lora.rank=4";

// Begins with the folder `base`, which a run without a reference has left.
class Preference : public testing::Test, public Job {
 protected:
  Preference() {
    std::string pairs;
    for (int i = 0; i < 40; ++i)
      pairs += pair("\"What follows " + std::to_string(i) + "?\"", "\"" + std::to_string(i + 1) + "\"",
                    "\"" + std::to_string(i * 7 % 40) + " or so\"");
    write_text(path("pairs.jsonl"), pairs);
    write_text(path("first.toml"),
               kRun +
                   "preference.loss = \"orpo\"\ntokenizer.vocab_size = 300\n"
                   "language = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, "
                   "num_key_value_heads = 2, max_position_embeddings = 96 }\n" +
                   kData + kShortTraining);
    pipeline({"run", "first.toml", "--set", "run.dir=first", "--set", "train.max_steps=6"}).ended(0);
    pipeline({"export", "first.toml", "--set", "run.dir=first", "--output", "base"}).ended(0);
    training_.insert(training_.find("global_batch"), "init_from = \"base\"\n");
    write_text(path("train.toml"), kRun + (kData + training_));
  }
  static std::string pair(const std::string& prompt, const std::string& chosen, const std::string& rejected) {
    return R"({"prompt": )" + prompt + R"(, "chosen": )" + chosen + R"(, "rejected": )" + rejected + "}\n";
  }
  std::vector<double> column(const std::string& run, const char* name) const {
    std::vector<double> all;
    for (const auto& step : read_json_lines(path(run + "/metrics.jsonl"))) all.push_back(step.at(name));
    return all;
  }
  // The page of an evaluation.
  std::string shown(const std::string& run, const Words& more) const {
    call("evaluate", more + Words{"run.dir=" + run, "--split", "test"}).ended(0);
    return read_text(path(run + "/evaluation-test-files/answers.html"));
  }
  std::string training_ = kShortTraining;
};

TEST_F(Preference, LearnsWhatIsPreferred) {
  EXPECT_THAT(call("run", {"train.max_steps=40", "evaluate.every=20"}).ended(0).out,
              AllOf(HasSubstr("40 training, 40 validation, 40 test pairs"), HasSubstr("written: ")));
  EXPECT_NEAR(column("run", "loss").front(), std::numbers::ln2, 1e-6) << "it begins with the reference";
  call("evaluate", {"--split", "test", "train.max_steps=40", "evaluate.every=20"}).ended(0);
  const auto figures = read_json(path("run/evaluation-test.json")).at("figures");
  EXPECT_GT(figures.at("accuracy").get<double>(), 0.9);
  EXPECT_NEAR(figures.at("margin").get<double>(),
              figures.at("reward_chosen").get<double>() - figures.at("reward_rejected").get<double>(), 1e-6);
  EXPECT_LE(figures.at("accuracy_low").get<double>(), figures.at("accuracy").get<double>());
  EXPECT_LT(figures.at("margin_low").get<double>(), figures.at("margin").get<double>());
  EXPECT_GT(figures.at("margin_high").get<double>(), figures.at("margin").get<double>());
  // What is exported is the model alone, which other tasks take.
  call("export", {"--output", "exported", "train.max_steps=40", "evaluate.every=20"}).ended(0);
  EXPECT_EQ(read_text(path("exported/config.json")), read_text(path("base/config.json")));
  EXPECT_THAT(pipeline({"chat", "exported", "--set", "observe.console=off"}).code, 0);
}

TEST_F(Preference, ShowsAnswersBesideThoseOfTheReference) {
  EXPECT_THAT(call("run", {kLora}).ended(0).out, HasSubstr("\n    reference: "));
  const std::string of_lora = shown("run", {kLora});
  EXPECT_THAT(of_lora, AllOf(HasSubstr("<dd>What follows 0?</dd>"), HasSubstr("<dt>model</dt>"),
                             HasSubstr("<dt>reference</dt>"), HasSubstr("<dt>chosen</dt><dd>1</dd>"),
                             HasSubstr("<dt>rejected</dt><dd>0 or so</dd>")));
  const Words second{kLora, "task.preference.reference=base"};
  call("run", second + Words{"run.dir=second"}).ended(0);
  EXPECT_EQ(shown("second", second), of_lora) << "the same reference in a model of its own";
  const Words without{"task.preference.loss=simpo"};
  call("run", without + Words{"run.dir=without"}).ended(0);
  EXPECT_THAT(shown("without", without),
              AllOf(HasSubstr("<dt>model</dt>"), Not(HasSubstr("<dt>reference</dt>"))));
  const Words judged{"task.preference.loss=kto"};
  call("run", judged + Words{"run.dir=judged"}).ended(0);
  EXPECT_THAT(shown("judged", judged), AllOf(HasSubstr("<dt>wanted</dt><dd>1</dd>"),
                                             HasSubstr("<dt>not wanted</dt><dd>0 or so</dd>")));
}

TEST_F(Preference, PredictsTheScoresOfPairs) {
  call("run").ended(0);
  call("predict").ended(0);
  const std::vector<std::string> lines = read_lines(path("run/submission.csv"));
  EXPECT_EQ(lines.at(0),
            "id,question,chosen,rejected,logp_chosen,logp_rejected,reward_chosen,reward_rejected");
  EXPECT_EQ(lines.size(), 41u);
  EXPECT_THAT(lines.at(1), testing::StartsWith("1,What follows 0?,1,0 or so,-"));
  call("predict", {"--prompt", "What follows 3?"}).ended(0);
  EXPECT_THAT(read_lines(path("run/asked.csv")).at(1), HasSubstr("What follows 3?"));
}

TEST_F(Preference, HasTheSameBitsUnderEveryStrategyAndAfterAKill) { expect_the_same_run_everywhere(*this); }

// The frozen base is as good a reference as a second model with its weights, whatever the strategy.
TEST_F(Preference, ReferenceOfLoraIsTheModelWithoutIt) {
  call("run", {kLora}).ended(0);
  call("run", {kLora, "run.dir=second", "task.preference.reference=base"}).ended(0);
  EXPECT_EQ(curve("second"), curve("run"));
  EXPECT_EQ(column("second", "margin"), column("run", "margin"));
  EXPECT_NEAR(column("run", "loss").front(), std::numbers::ln2, 1e-6);
  for (const char* dir : {"three", "three-second"})
    call("run",
         Arrangement{"sharded3", 2}.sets() +
             Words{kLora, std::string("run.dir=") + dir,
                   std::string(dir) == "three" ? "train.max_steps=12" : "task.preference.reference=base"})
        .ended(0);
  EXPECT_EQ(curve("three"), curve("run"));
  EXPECT_EQ(curve("three-second"), curve("run"));
}

TEST_F(Preference, AReferenceThatIsNotWhereTrainingBeginsIsNamed) {
  call("run", {kLora, "run.dir=lora", "train.max_steps=3"}).ended(0);
  EXPECT_THAT(call("run", {kLora, "run.dir=next", "train.init_from=lora"}).ended(0).out,
              HasSubstr("the reference is not what training begins with"));
  EXPECT_THAT(call("run", {"train.init_from=first"}).ended(2).err,
              HasSubstr("task.preference.reference: is needed, the folder of the reference model"));
  EXPECT_THAT(call("run", {"train.init_from=first", "task.preference.reference=gone"}).ended(2).err,
              HasSubstr("task.preference.reference=gone: there is no folder gone"));
  call("run", {"train.init_from=first", "task.preference.reference=base", "train.max_steps=6"}).ended(0);
  // The run has the reference's values.
  std::filesystem::rename(path("base"), path("moved"));
  call("run", {"train.init_from=first", "task.preference.reference=base"}).ended(0);
  std::filesystem::rename(path("moved"), path("base"));
  EXPECT_THAT(
      call("check", {kLora, "run.dir=new", "task.language.lora.modules_to_save=lm_head"}).ended(2).err,
      HasSubstr("task.language.lora.modules_to_save"));
  EXPECT_THAT(call("check", {"run.dir=new", "task.preference.loss=simpo", "task.preference.reference=base"})
                  .ended(2)
                  .err,
              HasSubstr("has no reference: leave it out"));
}

// KTO's reference point is of the whole step: the same in micro-batches of any size, and under every
// strategy.
TEST_F(Preference, AnswersThatAreJudgedByThemselves) {
  std::string judged;
  for (int i = 0; i < 40; ++i)
    judged += "{\"prompt\": \"What follows " + std::to_string(i) + "?\", \"completion\": \"" +
              (i % 2 == 0 ? std::to_string(i + 1) : std::to_string(i * 7 % 40) + " or so") +
              "\", \"label\": " + (i % 2 == 0 ? "true" : "false") + "}\n";
  write_text(path("judged.jsonl"), judged);
  const Words kto{"task.preference.loss=kto", "task.data.train=judged.jsonl", "task.data.val=judged.jsonl",
                  "task.data.test=judged.jsonl", "optimizer.lr=0.05"};
  EXPECT_THAT(call("run", kto).ended(0).out, HasSubstr("40 training, 40 validation, 40 test judged answers"));
  EXPECT_NEAR(column("run", "loss").front(), 0.5, 1e-6) << "it begins with the reference";
  for (const Arrangement& two : {Arrangement{"ddp", 2}, Arrangement{"sharded3", 2}}) {
    call("run", kto + two.sets() + Words{"run.dir=" + two.name()}).ended(0);
    EXPECT_EQ(curve(two.name()), curve("run"));
  }
  call("run", kto + Words{"run.dir=whole", "train.micro_batch=8"}).ended(0);
  const std::vector<double> parts = column("run", "loss"), whole = column("whole", "loss");
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-4) << i;
  call("predict", kto).ended(0);
  EXPECT_EQ(read_lines(path("run/submission.csv")).at(0), "id,question,answer,wanted,logp,reward");
  // A pair is two answers.
  EXPECT_THAT(call("run", {"task.preference.loss=kto", "run.dir=pairs", "train.max_steps=2"}).ended(0).out,
              HasSubstr("80 training, 80 validation, 80 test judged answers"));
}

TEST_F(Preference, AnswersAreScoredByAHead) {
  const Words reward{"task.preference.loss=reward"}, longer{"train.max_steps=40", "evaluate.every=20"};
  EXPECT_THAT(call("run", reward).ended(0).out, HasSubstr("the head for labels (score) is new"));
  for (const Arrangement& two : {Arrangement{"ddp", 2}, Arrangement{"sharded3", 2}}) {
    call("run", reward + two.sets() + Words{"run.dir=" + two.name()}).ended(0);
    EXPECT_EQ(curve(two.name()), curve("run"));
  }
  EXPECT_THAT(call("run", reward + longer).ended(0).out,
              AllOf(HasSubstr("chosen:   "), HasSubstr("rejected: ")));
  call("evaluate", Words{"--split", "test"} + reward + longer).ended(0);
  const auto figures = read_json(path("run/evaluation-test.json")).at("figures");
  EXPECT_GT(figures.at("accuracy").get<double>(), 0.9);
  EXPECT_FALSE(figures.contains("logp_chosen"));
  call("predict", reward + longer).ended(0);
  EXPECT_EQ(read_lines(path("run/submission.csv")).at(0),
            "id,question,chosen,rejected,reward_chosen,reward_rejected");
  call("export", Words{"--output", "scorer"} + reward + longer).ended(0);
  const auto config = read_json(path("scorer/config.json"));
  EXPECT_EQ(config.at("architectures").at(0), "LlamaForSequenceClassification");
  EXPECT_EQ(config.at("id2label").size(), 1u);
  write_text(
      path("scorer.toml"),
      "[run]\ndevice = \"cpu\"\n[task]\nplugin = \"preference\"\npreference.loss = \"reward\"\ndata.test = "
      "\"pairs.jsonl\"\n");
  pipeline({"predict", "scorer.toml", "--checkpoint", "scorer", "--output", "again.csv"}).ended(0);
  EXPECT_EQ(read_text(path("again.csv")), read_text(path("run/submission.csv")));
  // The folder says that it scores; whether an answer of the model would fit behind a question does not
  // matter.
  write_text(
      path("scorer.toml"),
      "[run]\ndevice = \"cpu\"\n[task]\nplugin = \"preference\"\ngenerate.max_tokens = 60\ndata.test = "
      "\"pairs.jsonl\"\n");
  pipeline({"predict", "scorer.toml", "--checkpoint", "scorer", "--set", "task.chat.max_tokens=64",
            "--output", "alike.csv"})
      .ended(0);
  EXPECT_EQ(read_text(path("alike.csv")), read_text(path("run/submission.csv")));
  write_text(
      path("scorer.toml"),
      "[run]\ndevice = \"cpu\"\n[task]\nplugin = \"preference\"\npreference.loss = \"reward\"\ndata.test = "
      "\"pairs.jsonl\"\n");
  EXPECT_THAT(pipeline({"predict", "scorer.toml", "--checkpoint", "base"}).ended(2).err,
              HasSubstr("has no head for labels"));
  EXPECT_THAT(call("check", reward + Words{"run.dir=new", "task.preference.beta=0.5"}).ended(2).err,
              HasSubstr("knows scores alone"));
}

// Texts, messages after a prompt, and whole conversations are the same pairs; what is none is left out by
// name.
TEST_F(Preference, ReadsTheFormsThatPairsComeIn) {
  const auto turn = [](const std::string& role, const std::string& text) {
    return R"({"role": ")" + role + R"(", "content": ")" + text + R"("})";
  };
  const std::string asked = turn("user", "Why?"), yes = turn("assistant", "So."),
                    no = turn("assistant", "No.");
  write_text(path("texts.jsonl"), pair("\"Why?\"", "\"So.\"", "\"No.\""));
  write_text(path("messages.jsonl"), pair("[" + asked + "]", "[" + yes + "]", "[" + no + "]"));
  write_text(path("whole.jsonl"),
             R"({"chosen": [)" + asked + ", " + yes + R"(], "rejected": [)" + asked + ", " + no + "]}\n");
  write_text(path("both.jsonl"),
             pair("\"Why?\"", "[" + asked + ", " + yes + "]", "[" + asked + ", " + no + "]"));
  std::vector<std::string> rows;
  for (const char* name : {"texts", "messages", "whole", "both"}) {
    pipeline({"predict", "train.toml", "--checkpoint", "base", "--set", "task.preference.reference=base",
              "--set", std::string("task.data.test=") + name + ".jsonl", "--output",
              std::string(name) + ".csv"})
        .ended(0);
    rows.push_back(read_lines(path(std::string(name) + ".csv")).at(1));
  }
  EXPECT_THAT(rows, Each(rows.front()));
  write_text(path("bad.jsonl"), pair("\"Why?\"", "\"So.\"", "\"So.\"") + pair("\"Why?\"", "\"So.\"", "null") +
                                    R"({"chosen": "So.", "rejected": "No."})"
                                    "\n" +
                                    R"({"chosen": [)" + asked + ", " + yes + R"(], "rejected": [)" +
                                    turn("user", "How?") + ", " + no + "]}\n" +
                                    pair("\"Why?\"", "\"So.\"", "\"No.\""));
  EXPECT_THAT(call("run", {"run.dir=bad", "task.data.train=bad.jsonl", "train.max_steps=1",
                           "train.global_batch=1", "train.micro_batch=1"})
                  .ended(0)
                  .out,
              AllOf(HasSubstr("two answers that are equal"), HasSubstr("no \"rejected\""),
                    HasSubstr("no \"prompt\", and \"chosen\" is no conversation"),
                    HasSubstr("two conversations that do not begin alike")));
}

TEST_F(Preference, SourcesHaveTheirOwnLosses) {
  write_text(path("mixed.toml"), kRun + (kSources + training_));
  pipeline({"run", "mixed.toml", "--set", "run.dir=mixed", "--set", "evaluate.every=0"}).ended(0);
  const auto step = read_json_lines(path("mixed/metrics.jsonl")).front();
  EXPECT_NEAR(step.at("loss/a").get<double>(), std::numbers::ln2, 1e-6);
  EXPECT_EQ(step.at("samples/a").get<double>() + step.at("samples/b").get<double>(), 8) << step.dump();
}

}  // namespace
}  // namespace pipeline::tests
