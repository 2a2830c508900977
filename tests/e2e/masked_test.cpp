// The masked task as a user runs it, with a model of a few thousand parameters.
#include <gmock/gmock.h>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;

const std::string kRun = reproducible_run("masked") +
                         R"(data = { train = "train.jsonl", val = "train.jsonl", test = "asked.jsonl" }
tokenizer.vocab_size = 280
model = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, intermediate_size = 32, max_position_embeddings = 48, hidden_dropout = 0.1 }
sequence.max_tokens = 24
)";

class MaskedRun : public testing::Test, public Job {
 protected:
  MaskedRun() {
    std::string texts;
    for (int i = 0; i < 48; ++i)
      texts += R"({"text": "the )" + std::string(i % 2 == 0 ? "cat meows" : "dog barks") + " at " +
               std::to_string(i % 7) + "\"}\n";
    write_text(path("train.jsonl"), texts);
    write_text(path("asked.jsonl"), R"({"text": "the cat<|endoftext|> at 3"}
{"text": "nothing is hidden"}
)");
    write_text(path("train.toml"), kRun + kShortTraining);
  }
};

TEST_F(MaskedRun, LearnsFillsAndGoesOnAsAnEncoder) {
  const Words longer{"train.max_steps=150", "evaluate.every=0"};
  EXPECT_THAT(call("run", longer).ended(0).out, HasSubstr("48 training, 48 validation, 2 test pieces"));
  call("evaluate", Words{"--split", "val"} + longer).ended(0);
  const auto figures = read_json(path("run/evaluation-val.json")).at("figures");
  EXPECT_GT(figures.at("accuracy").get<double>(), 0.5);
  EXPECT_GT(figures.at("perplexity").get<double>(), 1);
  call("predict", longer).ended(0);
  const std::vector<std::string> rows = read_lines(path("run/submission.csv"));
  EXPECT_THAT(rows.at(1), HasSubstr(",the cat meows at 3,0."));
  EXPECT_THAT(rows.at(2), HasSubstr(",nothing is hidden,nothing is hidden,"));
  call("export", Words{"--output", "folder"} + longer).ended(0);
  EXPECT_EQ(read_json(path("folder/config.json")).at("architectures").at(0), "BertForMaskedLM");
  const Result again = call("run", {"train.init_from=folder", "run.dir=again"}).ended(0);
  EXPECT_THAT(again.out, testing::Not(HasSubstr("is new")));
  EXPECT_LT(read_json_lines(path("again/metrics.jsonl")).front().at("loss").get<double>(), 3);
  // Vectors begin with it, whose folder keeps the head that tells tokens.
  write_text(path("vectors.toml"), R"([run]
dir = "vectors"
device = "cpu"
[task]
plugin = "embedding"
data = { train = "pairs.jsonl", query_column = "text", positive_column = "answer" }
[train]
init_from = "folder"
global_batch = 1
max_steps = 1
)");
  write_text(path("pairs.jsonl"), R"({"text": "the cat", "answer": "meows"})"
                                  "\n");
  pipeline({"run", "vectors.toml"}).ended(0);
  pipeline({"export", "vectors.toml", "--output", "vector-folder"}).ended(0);
  EXPECT_THAT(call("run", {"train.init_from=vector-folder", "run.dir=third"}).ended(0).out,
              testing::Not(HasSubstr("is new")));
}

TEST_F(MaskedRun, HasTheSameBitsUnderEveryStrategyAndAfterAKill) { expect_the_same_run_everywhere(*this); }

TEST_F(MaskedRun, NamesWhatCannotBeLearnt) {
  EXPECT_THAT(call("check", {"task.sequence.max_tokens=49"}).ended(2).err, HasSubstr("must be at most 48"));
  EXPECT_THAT(call("check", {"task.mask.shown=0.6", "task.mask.random=0.6"}).ended(2).err,
              HasSubstr("with task.mask.shown = 0.6 is more than 1"));
  EXPECT_THAT(call("run", {"task.data.text_column=body"}).ended(2).err, HasSubstr("\"body\""));
}

}  // namespace
}  // namespace pipeline::tests
